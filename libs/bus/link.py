"""The connection: made in the background for ever, watched by our own pings, replaced when it is lost.

Whoever waits for an answer on a connection that is lost, or on a subject that the server denies, learns it
at once instead of after a time-out.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg

from libs.bus.client import CarefulClient, open_client, servers_of
from libs.bus.errors import ApiRefused, Denied, Disconnected, RequestFailed
from libs.bus.metrics import Metrics
from libs.runtime import Backoff, CommonSettings, Health, log

_NO_RESPONDERS = "503"
PART = "nats"
OPEN_SECONDS = 10.0
PING_SECONDS = 10.0
PONG_SECONDS = 5.0
HOOK_SECONDS = 5.0
CLOSE_SECONDS = 1.0
REQUEST_SECONDS = 5.0

_log = log("bus")
_DENIED = re.compile(r'permissions violation for \w+ to "([^"]*)"')
_decode = msgspec.json.Decoder().decode


class Link:
    """One connection, from its making to its loss. A lost one is never mended."""

    def __init__(self) -> None:
        self.client: CarefulClient
        self.lost = asyncio.Event()
        self._waits: set[_Wait] = set()
        self._inbox = ""
        self._answers: dict[str, asyncio.Future[Msg]] = {}
        self._numbers = itertools.count()

    @property
    def up(self) -> bool:
        """Whether it can still be used; nats-py is closed some time before it says so."""
        return not self.lost.is_set() and not self.client.is_closed

    async def request(
        self, subject: str, data: bytes, *, headers: dict[str, str] | None = None, seconds: float = REQUEST_SECONDS
    ) -> Msg:
        """Send and return the answer; raises `RequestFailed` with the reason."""
        # nats-py's own request waits by `asyncio.wait_for`, which in Python 3.11 loses a cancellation that
        # meets the answer: whoever is cancelled would go on for ever.
        async with self.waiting(subject, seconds):
            if not self._inbox:
                self._inbox = self.client.new_inbox()
                await self.client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
            reply = f"{self._inbox}.{next(self._numbers)}"
            answered = self._answers[reply] = asyncio.get_running_loop().create_future()
            try:
                await self.client.publish(subject, data, reply=reply, headers=headers)
                answer = await answered
            finally:
                del self._answers[reply]
        if not answer.data and (answer.headers or {}).get("Status") == _NO_RESPONDERS:
            raise RequestFailed(f"nobody answers on {subject}")
        return answer

    async def api(self, path: str, body: object = None) -> dict[str, Any]:
        """Call JetStream's API; raises `ApiRefused` or `RequestFailed`."""
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.request(f"$JS.API.{path}", data)
        return api_answer(path, answer.data)

    async def publish(self, subject: str, data: bytes = b"", *, reply: str = "") -> None:
        """Send and expect nothing; raises `Disconnected` when the connection is gone."""
        try:
            await self.client.publish(subject, data, reply=reply)
        except (nats.errors.Error, OSError) as error:
            raise Disconnected(str(error)) from error

    @contextlib.asynccontextmanager
    async def waiting(self, subject: str, seconds: float) -> AsyncIterator[None]:
        """Bound what is awaited inside; it ends early when the link is lost or the subject is denied."""
        if not self.up:
            raise Disconnected("the connection is lost")
        wait = _Wait(subject, seconds)
        self._waits.add(wait)
        try:
            async with wait.timeout:
                yield
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise wait.failure(self) from error
        finally:
            self._waits.discard(wait)

    async def _on_answer(self, message: Msg) -> None:
        answered = self._answers.get(message.subject)
        if answered is not None and not answered.done():
            answered.set_result(message)

    async def heard_error(self, error: Exception) -> None:
        """Take what nats-py tells its error callback; the text of a denial is told nowhere else."""
        denied = _DENIED.search(str(error))
        if denied is None:
            return
        for wait in self._waits:
            if wait.subject.lower() == denied[1]:  # nats-py lowers the text
                wait.deny()

    def lose(self) -> None:
        """Mark it as lost, and wake whoever waits for an answer."""
        self.lost.set()
        for wait in self._waits:
            wait.end_now()

    async def close(self) -> None:
        """End it: politely for a moment, then at once."""
        self.lose()
        with contextlib.suppress(TimeoutError, nats.errors.Error, OSError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.client.close()
        self.client.cut()


class _Wait:
    """Somebody who waits for an answer, with a time-out that can be pulled forward."""

    def __init__(self, subject: str, seconds: float) -> None:
        self.subject = subject
        self.timeout = asyncio.timeout(seconds)
        self._seconds = seconds
        self._denied = False

    def deny(self) -> None:
        self._denied = True
        self.end_now()

    def end_now(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has just ended by itself
            self.timeout.reschedule(asyncio.get_running_loop().time())

    def failure(self, link: Link) -> RequestFailed:
        if not link.up:
            return Disconnected("the connection was lost before the answer")
        if self._denied:
            return Denied(f"permission denied: {self.subject}")
        return RequestFailed(f"no answer on {self.subject} within {self._seconds:g} s")


def api_answer(what: str, data: bytes) -> dict[str, Any]:
    """Decode an answer of JetStream, or raise `ApiRefused`."""
    try:
        answer = _decode(data)
    except msgspec.DecodeError as error:
        raise RequestFailed(f"{what}: the answer is not JSON") from error
    if not isinstance(answer, dict):
        raise RequestFailed(f"{what}: the answer is not an object")
    refusal = answer.get("error")
    if isinstance(refusal, dict):
        raise ApiRefused(
            what,
            code=int(refusal.get("code", 0)),
            err_code=int(refusal.get("err_code", 0)),
            description=str(refusal.get("description", "")),
        )
    return answer


Hook = Callable[[Link], Awaitable[None]]


class Links:
    """Keeps one link up, and hands it to whoever waits for it."""

    def __init__(self, settings: CommonSettings, *, name: str, health: Health, metrics: Metrics) -> None:
        self._settings = settings
        self._name = name
        self._health = health
        self._metrics = metrics
        self._servers = servers_of(settings)
        self._link: Link | None = None
        self._changed = asyncio.Condition()
        self._hooks: list[Hook] = []

    @property
    def now(self) -> Link | None:
        """The link, if there is one that is up."""
        return self._link if self._link is not None and self._link.up else None

    async def up(self) -> Link:
        """Wait for a link that is up."""
        while (link := self.now) is None:
            async with self._changed:
                await self._changed.wait_for(lambda: self.now is not None)
        return link

    def on_up(self, hook: Hook) -> Callable[[], None]:
        """Call `hook` with each new link; returns what ends that. What it raises is logged."""
        self._hooks.append(hook)
        return lambda: self._hooks.remove(hook)

    async def run(self) -> None:
        """Connect, watch, and connect again, until cancelled."""
        backoff = Backoff(REQUEST_SECONDS / 20, REQUEST_SECONDS)
        self._health.waiting(PART, f"connecting to {self._servers}")
        while True:
            link = await self._open()
            if link is not None:
                backoff.reset()
                try:
                    await self._hold(link)
                finally:
                    self._metrics.connected.set(0)
                    await link.close()
                self._health.waiting(PART, f"connection to {self._servers} lost, connecting")
            await asyncio.sleep(backoff.next())

    async def _open(self) -> Link | None:
        link = Link()

        async def on_error(error: Exception) -> None:
            if self._link is not link:
                self._health.waiting(PART, f"connecting to {self._servers}: {_reason(error)}")
            else:
                _log.warning("the client says", why=_reason(error)[:500])
            await link.heard_error(error)

        try:
            async with asyncio.timeout(OPEN_SECONDS):
                link.client = await open_client(self._settings, name=self._name, on_error=on_error, on_end=link.lose)
        except (TimeoutError, OSError, ValueError, nats.errors.Error) as error:
            if not isinstance(error, TimeoutError):
                self._health.waiting(PART, f"connecting to {self._servers}: {_reason(error)}")
            return None
        return link

    async def _hold(self, link: Link) -> None:
        """Return when the link is lost: closed by the other side, or silent."""
        self._metrics.connected.set(1)
        async with self._changed:
            self._link = link
            self._changed.notify_all()
        self._health.fine(PART)
        for hook in list(self._hooks):
            try:
                async with asyncio.timeout(HOOK_SECONDS):
                    await hook(link)
            except (nats.errors.Error, OSError, RequestFailed) as error:  # a time-out is an OSError
                _log.warning("start on a new connection failed", why=_reason(error))
        while link.up:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING_SECONDS):
                    await link.lost.wait()
                return
            try:
                await link.client.flush(PONG_SECONDS)
            except (nats.errors.Error, OSError):  # a time-out is an OSError
                _log.warning("the server is silent", seconds=PONG_SECONDS)
                link.lose()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
