"""The nats-py client with our options, and with its traps mended that cannot be handled from outside.

It never reconnects by itself: a connection that is lost stays lost, and `libs.bus.link` makes a new client.
So nothing is ever buffered while disconnected, and no half-dead state of nats-py outlives its connection.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import PING_PROTO, Client
from nats.aio.msg import Msg

from libs.runtime import CommonSettings

CONNECT_SECONDS = 3
REDIAL_SECONDS = 0.25
FLUSH_SECONDS = 5.0
_PING_SECONDS = 3600
"""The link pings for itself: nats-py's own way of giving up can hang on a half-open connection."""


class CarefulClient(Client):  # type: ignore[misc] # nats-py is untyped here
    """Refuses to send credentials without TLS where TLS is set, and survives bytes that are no text."""

    def __init__(self, *, needs_tls: bool, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._needs_tls = needs_tls
        self._on_end = on_end

    async def _read_loop(self) -> None:
        # nats-py's closed callback does not come when its last write fails; without a reader it is over anyway.
        try:
            await super()._read_loop()
        finally:
            self._on_end()

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        # An exception here would end the read loop, and the message would do so again at each delivery.
        try:
            parsed: dict[str, str] | None = await super()._process_headers(headers)
        except (ValueError, IndexError):
            return {}
        return parsed

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        return Msg(
            _client=self,
            subject=subject.decode("utf-8", "replace"),
            reply=reply.decode("utf-8", "replace"),
            data=data,
            headers=headers,
            _sid=sid,
        )

    def _connect_command(self) -> bytes:
        # The server says in plain text whether TLS follows; who sits in between could say no.
        wanted = self._needs_tls or self._current_server.uri.scheme == "tls"
        if wanted and not self._server_info.get("tls_required"):
            raise nats.errors.Error("TLS is set and the server does not offer it: no credentials were sent")
        command: bytes = super()._connect_command()
        return command

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        # nats-py writes its PING past what is still queued: a round trip would prove nothing about that.
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:  # noqa: ASYNC109 - nats-py's signature
        """Return when the server has taken all that was sent before; `TimeoutError` when it does not answer.

        Without `asyncio.wait_for`, which in Python 3.11 loses a cancellation that meets the answer; and without
        cancelling the future, which would end nats-py's read loop when the answer comes after all.
        """
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await self._send_ping(answered)
        done, _ = await asyncio.wait([answered], timeout=timeout)
        if not done:
            raise TimeoutError(f"no PONG within {timeout:g} s")

    def cut(self) -> None:
        """Drop the connection at once, whatever waits to be written, and every task that serves it."""
        for subscription in list(self._subs.values()):
            subscription._stop_processing()  # noqa: SLF001 - nats-py leaves these behind when its close fails
        self._subs.clear()
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None:
                task.cancel()
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


async def open_client(
    settings: CommonSettings,
    *,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_end: Callable[[], None],
) -> CarefulClient:
    """Connect to the first server that takes us; `on_end` is called when that connection is over.

    Password and CA files are read anew each time.
    """
    urls = [url.strip() for url in settings.nats_url.split(",") if url.strip()]
    client = CarefulClient(needs_tls=bool(settings.nats_ca_file), on_end=on_end)
    try:
        await client.connect(
            servers=urls,
            name=name,
            error_cb=on_error,
            allow_reconnect=False,
            connect_timeout=CONNECT_SECONDS,
            reconnect_time_wait=REDIAL_SECONDS,
            max_reconnect_attempts=-1,
            ping_interval=_PING_SECONDS,
            pending_size=0,  # nothing waits in a buffer: a send without a connection raises
            inbox_prefix=f"_INBOX_{name}",
            **_credentials(settings),
        )
    except BaseException:
        client.cut()
        raise
    return client


def servers_of(settings: CommonSettings) -> str:
    """The servers as text for people, without any user or password that the URLs carry."""
    return ",".join(urlsplit(url.strip()).netloc.rpartition("@")[2] for url in settings.nats_url.split(","))


def _credentials(settings: CommonSettings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.nats_ca_file or "tls://" in settings.nats_url:
        options["tls"] = ssl.create_default_context(cafile=settings.nats_ca_file or None)
    if settings.nats_user:
        path = settings.nats_password_file
        options["user"] = settings.nats_user
        options["password"] = Path(path).read_text(encoding="utf-8").strip() if path else ""
    return options
