"""The bus as a service uses it: one object that publishes, consumes, reads and keeps the streams."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from prometheus_client import CollectorRegistry

from libs import events
from libs.bus.consume import ConsumerLoop, Gate, Handler, Wanted
from libs.bus.delivery import Delivery
from libs.bus.keep import StreamKeeper
from libs.bus.link import Links
from libs.bus.metrics import Metrics
from libs.bus.micro import micro_service
from libs.bus.publish import Publisher
from libs.bus.read import Reader
from libs.bus.streams import ConsumerSpec
from libs.runtime import CommonSettings, Health

CLOSE_SECONDS = 3.0
CANCEL_AGAIN_SECONDS = 1.5


class Bus:
    """NATS for one process. Made by `connect`."""

    def __init__(
        self, settings: CommonSettings, *, name: str, health: Health, registry: CollectorRegistry | None
    ) -> None:
        self._health = health
        self._metrics = Metrics(registry)
        self._links = Links(settings, name=name, health=health, metrics=self._metrics)
        self._publisher = Publisher(f"nodetrail/{name}", links=self._links, health=health, metrics=self._metrics)
        self._reader = Reader(links=self._links, health=health)
        self._keeper = StreamKeeper(links=self._links, health=health)
        self._running: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._links.now is not None

    async def publish(
        self, event: events.Event, *, subject: str, message_id: str, made_at: float | None = None
    ) -> None:
        """Return when a stream has acknowledged the event; waits for NATS as long as it takes.

        `made_at` is the `time.monotonic()` of the observation; its age is filled in at each try. Safe to
        cancel and to repeat under the same id. Raises only `EventTooLarge`.
        """
        await self._publisher.publish(event, subject=subject, message_id=message_id, made_at=made_at)

    async def consume(
        self,
        *,
        stream: str,
        durable: str,
        handle: Handler,
        in_flight: int = 64,
        gate: Gate | None = None,
        retry_seconds: float = 1.0,
    ) -> None:
        """Handle the consumer's messages until cancelled, at most `in_flight` at once, each at least once.

        The consumer is made by the status writer; until then this waits. `handle` returns None when it is done
        (thousands a second), or what is to be awaited. Its return acknowledges; `Later` gives the message back;
        any other exception counts, and the fifth sets the message aside. `gate` is awaited before messages are
        asked for. `retry_seconds` is the pause after a message's first failure; it doubles.
        """
        wanted = Wanted(
            stream=stream,
            durable=durable,
            handle=handle,
            in_flight=in_flight,
            gate=gate,
            retry_seconds=retry_seconds,
        )
        await ConsumerLoop(
            wanted, links=self._links, health=self._health, metrics=self._metrics, publisher=self._publisher
        ).run()

    def newest(self, stream: str, subject_filter: str) -> AsyncIterator[Delivery]:
        """Iterate over the newest event of each subject; waits for NATS and for the stream."""
        return self._reader.newest(stream, subject_filter)

    async def last(self, stream: str, subject: str) -> Delivery | None:
        """Return the newest event of one subject, or None."""
        return await self._reader.last(stream, subject)

    async def ensure_streams(self) -> None:
        """Make both streams or mend their shape; only the status writer may. Waits for NATS."""
        await self._keeper.ensure_streams()

    async def ensure_consumer(self, stream: str, durable: str, *, filter_subjects: Sequence[str]) -> None:
        """Make a durable consumer or mend its shape; only the status writer may. Waits for NATS."""
        await self._keeper.ensure_consumer(
            ConsumerSpec(stream=stream, durable=durable, filter_subjects=tuple(filter_subjects))
        )

    async def keep_streams(self, consumers: Sequence[ConsumerSpec]) -> None:
        """Keep streams and consumers there until cancelled: at once, on each new connection, every 30 s."""
        await self._keeper.run(consumers)

    def micro(self, name: str, version: str, description: str) -> AbstractAsyncContextManager[None]:
        """Be registered as a NATS micro service while the block runs."""
        return micro_service(self._links, name, version, description)

    async def open(self) -> None:
        """Begin to connect, in the background."""
        self._running = asyncio.get_running_loop().create_task(self._links.run(), name="nats")

    async def close(self) -> None:
        """Close the connection; what was acknowledged or given back before is sent first."""
        if self._running is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while not self._running.done():
                    # Again and again, since nats-py loses a cancellation while it connects.
                    self._running.cancel()
                    await asyncio.wait([self._running], timeout=CANCEL_AGAIN_SECONDS)


@contextlib.asynccontextmanager
async def connect(
    settings: CommonSettings, *, name: str, health: Health, registry: CollectorRegistry | None = None
) -> AsyncIterator[Bus]:
    """Yield a bus at once; it connects in the background for ever, and says in health what it waits for."""
    bus = Bus(settings, name=name, health=health, registry=registry)
    await bus.open()
    try:
        yield bus
    finally:
        await bus.close()
