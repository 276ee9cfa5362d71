"""Keeping the streams and consumers there: they are made anew when they are lost. The status writer's part."""

import asyncio
import contextlib
from collections.abc import Sequence

from libs.bus.errors import BusError
from libs.bus.link import Link, Links
from libs.bus.retry import Retry
from libs.bus.streams import ConsumerSpec, ensure_consumer, ensure_stream
from libs.events import subjects
from libs.runtime import Health

PART = "streams"
KEEP_SECONDS = 30.0
AGAIN_SECONDS = 2.0

STREAMS = (subjects.TRAIL, subjects.SIGHTINGS)


class StreamKeeper:
    """Makes, mends and keeps what the bus stands on."""

    def __init__(self, *, links: Links, health: Health) -> None:
        self._links = links
        self._health = health
        self._retry = Retry(PART, links=links, health=health)

    async def ensure_streams(self) -> None:
        """Make or mend both; waits for NATS. Raises `WrongShape` when an operator has to act."""
        for name in STREAMS:

            async def ensure(link: Link, name: str = name) -> None:
                await ensure_stream(link, name)

            await self._retry.until_answered(ensure)

    async def ensure_consumer(self, spec: ConsumerSpec) -> None:
        """Make or mend one; waits for NATS. Raises `WrongShape` when an operator has to act."""
        await self._retry.until_answered(lambda link: ensure_consumer(link, spec))

    async def run(self, consumers: Sequence[ConsumerSpec]) -> None:
        """Ensure everything, on each new connection and from time to time, until cancelled.

        A shape that cannot be mended is said in health and looked at again: it ends no process.
        """
        while True:
            link = await self._links.up()
            pause = KEEP_SECONDS
            try:
                for name in STREAMS:
                    await ensure_stream(link, name)
                for spec in consumers:
                    await ensure_consumer(link, spec)
            except BusError as error:
                pause = AGAIN_SECONDS
                self._health.waiting(PART, str(error))
            else:
                self._health.fine(PART)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await link.lost.wait()
