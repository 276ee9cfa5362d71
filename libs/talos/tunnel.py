"""Hands one verified TLS stream to gRPC, over a Unix socket that only this process can reach.

gRPC's own TLS cannot talk to Talos: it does not offer Ed25519. Each stream gets a fresh random path and each
channel its own subchannel pool, else gRPC would answer for one node over a connection to another. gRPC only ever
says that a socket closed, so the tunnel remembers why.
"""

from __future__ import annotations

import asyncio
import atexit
import secrets
import shutil
import socket
import ssl
import tempfile
from contextlib import AsyncExitStack, suppress
from functools import cache
from pathlib import Path

import grpc

from libs.endpoint import Endpoint
from libs.talos.errors import CredentialsRejected, StrangeAnswer, TalosError, Unreachable
from libs.talos.tls import CHUNK, TlsStream

SETTLE_SECONDS = 1.0
"""How long a failed call waits for the connection's own account of what happened."""

_REFUSALS = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it asks for one",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority that signed it",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired by the node's clock",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not one for clients",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not one for clients",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it cannot be used",
    "TLSV1_ALERT_DECRYPT_ERROR": "its signature does not hold",
    "TLSV1_ALERT_ACCESS_DENIED": "access is denied",
}
_SETTINGS_FRAME = b"\x04"
"""The type of the frame that every HTTP/2 server sends first."""
_PATH_MAX = 60
"""A Unix socket's path may have 107 bytes, and the temporary folder's own part of it may be long."""


async def open_tunnel(
    stack: AsyncExitStack, stream: TlsStream, endpoint: Endpoint, *, answer_bytes_max: int, with_certificate: bool
) -> Tunnel:
    """Make a channel over a verified stream; unwinding `stack`, in the same task, ends it.

    `with_certificate` says whether the handshake showed a client certificate of ours, which a node may refuse.
    """
    listener, path = _listen()
    stack.callback(_unlink, path)
    stack.callback(listener.close)
    tasks = await asyncio.TaskGroup().__aenter__()
    # Left without the body's own exception, which would come out wrapped in a group.
    stack.push_async_callback(tasks.__aexit__, None, None, None)
    channel = grpc.aio.insecure_channel(f"unix:{path}", options=_options(endpoint, answer_bytes_max))
    tunnel = Tunnel(stream, endpoint, channel, with_certificate=with_certificate)
    carrying = tasks.create_task(tunnel.carry(listener, path), name=f"tunnel to {endpoint}")
    stack.callback(carrying.cancel)
    stack.push_async_callback(channel.close, None)
    return tunnel


class Tunnel:
    """A gRPC channel over one verified stream, and why it ended."""

    def __init__(
        self, stream: TlsStream, endpoint: Endpoint, channel: grpc.aio.Channel, *, with_certificate: bool
    ) -> None:
        self._stream = stream
        self._endpoint = endpoint
        self._with_certificate = with_certificate
        self._ended = asyncio.Event()
        self._cause: TalosError | None = None
        self.channel = channel

    async def cause(self, *, wait: bool) -> TalosError | None:
        """Return why the connection ended, or None if it has not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS if wait else 0):
                await self._ended.wait()
        return self._cause

    async def carry(self, listener: socket.socket, path: str) -> None:
        """Accept gRPC's one connection and carry both ways until either side ends."""
        local = await _accepted(listener)
        listener.close()
        _unlink(path)
        try:
            with local:
                async with asyncio.TaskGroup() as group:
                    inward = group.create_task(self._inward(local))
                    outward = group.create_task(self._outward(local, inward))
                    inward.add_done_callback(lambda _: outward.cancel())
        finally:
            self._ended.set()

    async def _inward(self, local: socket.socket) -> None:
        """Carry what the node says, to its end: the last thing may be why it hung up."""
        loop = asyncio.get_running_loop()
        try:
            data = await self._stream.read()
            if data and data[3:4] != _SETTINGS_FRAME:
                self._remember(StrangeAnswer(f"what answers at {self._endpoint} does not speak gRPC"))
            while data:
                await loop.sock_sendall(local, data)
                data = await self._stream.read()
        except ssl.SSLError as error:
            self._remember(self._alert(error))
        except OSError as error:
            self._remember(Unreachable(f"the connection to {self._endpoint} broke: {error.strerror or error}"))
        else:
            self._remember(Unreachable(f"{self._endpoint} closed the connection"))

    async def _outward(self, local: socket.socket, inward: asyncio.Task[None]) -> None:
        while data := await _received(local):
            try:
                await self._stream.write(data)
            except OSError:
                return  # reading goes on, and finds out why
        self._remember(Unreachable(f"the gRPC connection to {self._endpoint} ended"))
        inward.cancel()

    def _remember(self, cause: TalosError) -> None:
        self._cause = self._cause or cause

    def _alert(self, error: ssl.SSLError) -> TalosError:
        refusal = _REFUSALS.get(error.reason or "")
        if refusal and self._with_certificate:
            return CredentialsRejected(
                f"{self._endpoint} refuses our client certificate: {refusal}; renew the talosconfig"
            )
        if refusal:
            return StrangeAnswer(f"{self._endpoint} wants a client certificate, as no box in maintenance mode does")
        return Unreachable(f"the TLS connection to {self._endpoint} broke ({error.reason or error})")


def _options(endpoint: Endpoint, answer_bytes_max: int) -> list[tuple[str, int | str]]:
    return [
        ("grpc.default_authority", str(endpoint)),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),  # a configuration is sent once or not at all
        ("grpc.http2.bdp_probe", 0),  # these are HTTP/2 pings, which Talos answers with GOAWAY
        ("grpc.max_receive_message_length", answer_bytes_max),
        # The length is checked before a message is unpacked, and a small one can unpack to gigabytes.
        ("grpc.per_message_decompression", 0),
    ]


async def _accepted(listener: socket.socket) -> socket.socket:
    """Accept without a gap: a cancelled `sock_accept` can lose the socket that it has accepted already."""
    loop = asyncio.get_running_loop()
    waiting = asyncio.Event()
    loop.add_reader(listener, waiting.set)
    try:
        await waiting.wait()
    finally:
        loop.remove_reader(listener)
    local, _ = listener.accept()
    local.setblocking(False)
    return local


async def _received(local: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(local, CHUNK)
    except OSError:
        return b""  # gRPC closed it with something unread


def _listen() -> tuple[socket.socket, str]:
    path = f"{_folder()}/{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.bind(path)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener, path


def _unlink(path: str) -> None:
    Path(path).unlink(missing_ok=True)


@cache
def _folder() -> str:
    """Make the process's one folder for sockets, which nobody else may enter."""
    usual = tempfile.gettempdir()
    short = "/tmp"  # noqa: S108 - a folder of mode 0700 and random name is made in it
    folder = tempfile.mkdtemp(prefix="nodetrail-", dir=usual if len(usual) < _PATH_MAX else short)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
