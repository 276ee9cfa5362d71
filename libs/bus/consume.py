"""The consumer loop: pulls the messages of one durable consumer for ever, and settles each of them.

Settled means acknowledged, given back with a delay, or set aside as a dead letter; there is no fourth way. A
handler that returns None is done at once, on the fast path; what it returns to be awaited runs beside others,
and the server is told meanwhile that it is being worked on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from nats.aio.msg import Msg

from libs import events
from libs.bus import trace
from libs.bus.deadletter import set_aside
from libs.bus.delivery import AckReply, Delivery, delivered, parse_ack_reply
from libs.bus.errors import ApiRefused, Disconnected, Later, RequestFailed
from libs.bus.link import Link, Links
from libs.bus.metrics import Metrics
from libs.bus.publish import Publisher
from libs.bus.pull import EMPTY_MAX, Pull
from libs.bus.streams import UNACKNOWLEDGED_MAX
from libs.runtime import Health, log

Handler = Callable[[Delivery], Awaitable[None] | None]
Gate = Callable[[], Awaitable[None]]
AckKey = tuple[int, int]
"""Sequence and time of storing: a stream that is made anew counts from one again."""

FAILURES_MAX = 5
"""A message that failed so often is set aside."""
FAILURES_REMEMBERED_MAX = 10_000
RETRY_LIMIT_SECONDS = 30.0
PROGRESS_SECONDS = 4.0
MISSING_SECONDS = 1.0
LEAVE_SECONDS = 1.0

_NOT_FOUND = 404
_ACK = b""
_PROGRESS = b"+WPI"

_log = log("bus")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which consumer to pull, and how."""

    stream: str
    durable: str
    handle: Handler
    in_flight: int
    gate: Gate | None
    retry_seconds: float


class ConsumerLoop:
    """Consumes for one handler. Messages may come again, and in any order: handlers must bear both."""

    def __init__(self, wanted: Wanted, *, links: Links, health: Health, metrics: Metrics, publisher: Publisher) -> None:
        self._wanted = wanted
        self._durable = wanted.durable
        self._links = links
        self._health = health
        self._metrics = metrics
        self._publisher = publisher
        self._failures = _Failures()
        self._held: dict[AckKey, str] = {}
        self._tasks: asyncio.TaskGroup
        self._pull: Pull | None = None
        self._leaving = False
        self._handled = {
            outcome: metrics.handled.labels(consumer=wanted.durable, outcome=outcome)
            for outcome in ("done", "later", "failed", "dead")
        }

    async def run(self) -> None:
        """Consume until cancelled; what is in work then is given back at once."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._report_progress(), name=f"{self._durable} progress")
                while True:
                    await self._consume_on(await self._links.up())
        finally:
            self._leaving = True

    async def _consume_on(self, link: Link) -> None:
        """Consume until something is wrong with this link or this pull."""
        try:
            await self._wait_for_consumer(link)
            await self._pull_on(link)
        except Disconnected:
            await asyncio.sleep(0)  # whatever the cause, the loop gets its turn
        except (RequestFailed, ApiRefused) as error:
            self._health.waiting(self._durable, str(error))
            await asyncio.sleep(MISSING_SECONDS)

    async def _wait_for_consumer(self, link: Link) -> None:
        stream = self._wanted.stream
        while True:
            try:
                await self._info(link)
            except ApiRefused as error:
                if error.code != _NOT_FOUND:
                    raise
            else:
                self._health.fine(self._durable)
                return
            self._health.waiting(
                self._durable, f"stream {stream} has no consumer {self._durable} yet: the status writer makes it"
            )
            await asyncio.sleep(MISSING_SECONDS)

    async def _pull_on(self, link: Link) -> None:
        """Pull until the link is lost or another subscription is needed."""
        pull = self._pull = Pull(
            link,
            stream=self._wanted.stream,
            durable=self._durable,
            take=self._take,
            limit=self._wanted.in_flight,
        )
        await pull.start()
        try:
            while not pull.ended:
                if self._wanted.gate is not None:
                    await self._wanted.gate()
                await pull.ask(self._wanted.in_flight - len(self._held))
                await pull.wait()
                if pull.empty >= EMPTY_MAX:
                    pull.empty = 0
                    if await self._is_stuck(link):
                        break
            self._metrics.rebinds.labels(consumer=self._durable).inc()
            _log.info("pulling anew", consumer=self._durable, why=pull.ended or "messages wait and none comes")
        except asyncio.CancelledError:
            self._leaving = True
            raise
        finally:
            await pull.stop(LEAVE_SECONDS)

    async def _is_stuck(self, link: Link) -> bool:
        """Whether messages could be delivered and are not; raises `ApiRefused` when the consumer is gone."""
        info = await self._info(link)
        return bool(info["num_pending"] and info["num_ack_pending"] < UNACKNOWLEDGED_MAX and not self._held)

    async def _info(self, link: Link) -> dict[str, Any]:
        info = await link.api(f"CONSUMER.INFO.{self._wanted.stream}.{self._durable}")
        self._metrics.pending.labels(consumer=self._durable).set(info["num_pending"])
        self._metrics.unacknowledged.labels(consumer=self._durable).set(info["num_ack_pending"])
        return info

    async def _take(self, message: Msg) -> None:
        ack = parse_ack_reply(message.reply)
        if ack is None:
            return
        if self._leaving:
            await self._answer(message.reply, _nak(0))
            return
        key = (ack.sequence, ack.stored_ns)
        if key in self._held:  # delivered again while it is worked on: the work in progress settles both
            self._held[key] = message.reply
            return
        trace.follow((message.headers or {}).get(trace.HEADER, ""))
        try:
            delivery = delivered(message, ack)
        except events.UndecodableEventError as error:
            self._start(key, message, self._bury(message, ack, str(error)))
            return
        try:
            work = self._wanted.handle(delivery)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the message's failure
            self._start(key, message, self._settle_failed(message, ack, error))
            return
        if work is None:
            self._handled["done"].inc()
            await self._answer(message.reply, _ACK)
        else:
            self._start(key, message, self._finish(message, ack, work))

    def _start(self, key: AckKey, message: Msg, work: Coroutine[Any, Any, bytes]) -> None:
        self._held[key] = message.reply
        self._tasks.create_task(self._settle(key, work), name=f"{self._durable} {key[0]}")

    async def _settle(self, key: AckKey, work: Coroutine[Any, Any, bytes]) -> None:
        """Do the work and give the server its answer; when cancelled, give the message back at once."""
        answer = _nak(0)
        try:
            answer = await work
        finally:
            await self._answer(self._held.pop(key), answer)
            if self._pull is not None:
                self._pull.nudge()

    async def _finish(self, message: Msg, ack: AckReply, work: Awaitable[None]) -> bytes:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is the message's failure
            return await self._settle_failed(message, ack, error)
        self._failures.forget((ack.sequence, ack.stored_ns))
        self._handled["done"].inc()
        return _ACK

    async def _settle_failed(self, message: Msg, ack: AckReply, error: Exception) -> bytes:
        if isinstance(error, Later):
            self._handled["later"].inc()
            return _nak(error.seconds)
        failures = self._failures.add((ack.sequence, ack.stored_ns))
        _log.error(
            "handling failed",
            consumer=self._durable,
            subject=message.subject[:200],
            sequence=ack.sequence,
            failures=failures,
            exc_info=error,
        )
        if failures >= FAILURES_MAX:
            return await self._bury(message, ack, f"failed {failures} times: {type(error).__name__}: {error}")
        self._handled["failed"].inc()
        return _nak(min(self._wanted.retry_seconds * 2 ** (failures - 1), RETRY_LIMIT_SECONDS))

    async def _bury(self, message: Msg, ack: AckReply, error: str) -> bytes:
        _log.error("set aside", consumer=self._durable, subject=message.subject[:200], sequence=ack.sequence, why=error)
        await set_aside(self._publisher, message, ack, consumer=self._durable, error=error)
        self._failures.forget((ack.sequence, ack.stored_ns))
        self._handled["dead"].inc()
        return _ACK

    async def _answer(self, reply: str, answer: bytes) -> None:
        """Fire and forget: an answer that is lost means that the message comes again."""
        link = self._links.now
        if link is not None:
            try:
                await link.publish(reply, answer)
            except Disconnected:
                return

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            for reply in list(self._held.values()):
                await self._answer(reply, _PROGRESS)


class _Failures:
    """How often each message failed here; the oldest are forgotten first.

    The server's own count of deliveries will not do: it counts what was given back for `Later`, too.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[AckKey, int] = OrderedDict()

    def add(self, key: AckKey) -> int:
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > FAILURES_REMEMBERED_MAX:
            self._counts.popitem(last=False)
        return count

    def forget(self, key: AckKey) -> None:
        self._counts.pop(key, None)


def _nak(seconds: float) -> bytes:
    if seconds <= 0:
        return b"-NAK"
    return b"-NAK " + msgspec.json.encode({"delay": int(seconds * 1_000_000_000)})
