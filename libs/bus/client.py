"""The nats-py client with our options, and with its traps mended that cannot be handled from outside.

It never reconnects by itself: a connection that is lost stays lost, and `libs.bus.link` makes a new client.
So nothing is ever buffered while disconnected, and no half-dead state of nats-py outlives its connection.
"""

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from libs.runtime import CommonSettings

CONNECT_SECONDS = 3
REDIAL_SECONDS = 0.25
_PING_SECONDS = 3600
"""The link pings for itself: nats-py's own way of giving up can hang on a half-open connection."""


class CarefulClient(Client):  # type: ignore[misc] # nats-py is untyped here
    """Refuses to send credentials without TLS where TLS is set, and survives bytes that are no text."""

    needs_tls = False

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
        if self.needs_tls and not self._server_info.get("tls_required"):
            raise nats.errors.Error("TLS is set and the server does not offer it: no credentials were sent")
        command: bytes = super()._connect_command()
        return command

    def cut(self) -> None:
        """Drop the connection at once, whatever waits to be written."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


async def open_client(
    settings: CommonSettings,
    *,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_closed: Callable[[], Awaitable[None]],
) -> CarefulClient:
    """Connect to the first server that takes us. Password and CA files are read anew each time."""
    urls = [url.strip() for url in settings.nats_url.split(",") if url.strip()]
    client = CarefulClient()
    client.needs_tls = bool(settings.nats_ca_file) or all(url.startswith("tls://") for url in urls)
    try:
        await client.connect(
            servers=urls,
            name=name,
            error_cb=on_error,
            closed_cb=on_closed,
            allow_reconnect=False,
            connect_timeout=CONNECT_SECONDS,
            reconnect_time_wait=REDIAL_SECONDS,
            max_reconnect_attempts=-1,
            ping_interval=_PING_SECONDS,
            inbox_prefix=f"_INBOX_{name}",
            **_credentials(settings, needs_tls=client.needs_tls),
        )
    except BaseException:
        client.cut()
        raise
    return client


def servers_of(settings: CommonSettings) -> str:
    """The servers as text for people, without any user or password that the URLs carry."""
    return ",".join(urlsplit(url.strip()).netloc.rpartition("@")[2] for url in settings.nats_url.split(","))


def _credentials(settings: CommonSettings, *, needs_tls: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if needs_tls:
        options["tls"] = ssl.create_default_context(cafile=settings.nats_ca_file or None)
    if settings.nats_user:
        path = settings.nats_password_file
        options["user"] = settings.nats_user
        options["password"] = Path(path).read_text(encoding="utf-8").strip() if path else ""
    return options
