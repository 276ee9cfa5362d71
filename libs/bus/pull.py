"""One pull subscription of a durable consumer: asks for messages, counts what is still owed, notices silence.

nats-py's own `fetch` is not used: it takes a stored message with an inline status for an answer of the server,
and it sits out its whole time-out when its request has died. Here a request is known to be alive by its
heartbeats, and a message by the reply subject that only delivered messages have.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors
from nats.aio.msg import Msg

from libs.bus.errors import Denied, Disconnected, RequestFailed
from libs.bus.link import Link

EXPIRES_SECONDS = 5.0
HEARTBEAT_SECONDS = 1.0
SILENCE_SECONDS = 3.0
PAUSE_SECONDS = 0.2
EMPTY_MAX = 3
"""After so many requests without a message somebody should look whether the stream has some."""

_SECOND = 1_000_000_000
_HEARTBEAT = "100"
_OVER = ("404", "408")
_CONFLICT = "409"
_ENDS = ("consumer deleted", "consumer is push based")


class Pull:
    """Requests on one link. `take` is called with each message; it must not wait for other messages."""

    def __init__(
        self, link: Link, *, stream: str, durable: str, take: Callable[[Msg], Awaitable[None]], limit: int
    ) -> None:
        self.owed = 0
        """Messages asked for that have not come."""
        self.ended = ""
        """Why no message will come on this subscription any more."""
        self.empty = 0
        """Requests that passed since the last message."""
        self._link = link
        self._take = take
        self._low = limit // 2
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._inbox = link.client.new_inbox()
        self._heard = False
        self._pause = False
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Subscribe to the inbox to which messages are delivered."""
        self._subscription = await self._link.client.subscribe(self._inbox, cb=self._on_message)

    async def ask(self, room: int) -> None:
        """Ask for as many messages as there is room for, if that is worth a request."""
        count = room - self.owed
        if self.owed > self._low or count <= 0:
            return
        if self._pause:
            self._pause = False
            await asyncio.sleep(PAUSE_SECONDS)
        request = {
            "batch": count,
            "expires": int(EXPIRES_SECONDS * _SECOND),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * _SECOND),
        }
        self.owed += count
        await self._link.publish(self._subject, msgspec.json.encode(request), reply=self._inbox)

    async def wait(self) -> None:
        """Return when it may be time to ask again; raises `Disconnected` or `Denied`."""
        owed = self.owed
        self._heard = False
        try:
            async with self._link.waiting(self._subject, SILENCE_SECONDS):
                await self._wake.wait()
        except (Disconnected, Denied):
            raise
        except RequestFailed:
            if owed and not self._heard:  # the request is dead, or never arrived
                self.owed = 0
                self.empty += 1
        self._wake.clear()

    def nudge(self) -> None:
        """Let `wait` return: there may be room again."""
        self._wake.set()

    async def stop(self, seconds: float) -> None:
        """Unsubscribe; what is on its way is still taken, for so long."""
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._subscription.drain()

    async def _on_message(self, message: Msg) -> None:
        self._heard = True
        if not message.reply:
            self._on_status(message)
            return
        self.empty = 0
        self.owed = max(self.owed - 1, 0)
        await self._take(message)
        if self.owed <= self._low and not self._wake.is_set():
            self._wake.set()
            await asyncio.sleep(0)  # lets the next request out before the last messages are through

    def _on_status(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status", "")
        text = headers.get("Description", "")
        if status == _HEARTBEAT:
            return
        unsent = headers.get("Nats-Pending-Messages", "")
        self.owed = max(self.owed - int(unsent), 0) if unsent.isdecimal() else 0
        self.empty += 1
        if status not in _OVER:
            self._pause = True
            if status != _CONFLICT or text.lower().startswith(_ENDS):
                self.ended = f"{status} {text}".strip()
        self._wake.set()
