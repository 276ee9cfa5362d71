"""TLS of one connection, driven through memory BIOs over a plain socket.

asyncio's own TLS closes on the first failed write and so loses the alert in which a node says why it refused our
certificate, and it holds a buffer of 256 KiB for each connection. Here reading and writing are apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

CHUNK = 32 * 1024
T = TypeVar("T")


def client_context() -> ssl.SSLContext:
    """Return what every connection to Talos has in common; it verifies nothing and shows no certificate yet.

    Names are never checked: a node is dialled at addresses that its certificate cannot know yet.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["h2"])
    return context


class TlsStream:
    """One end of one connection, the client's by default: one task may read while another writes."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool = False) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._sending = asyncio.Lock()

    async def handshake(self) -> None:
        """Finish the handshake; `ssl.SSLError` says what was wrong, `OSError` that the peer left."""
        await self._drive(self._tls.do_handshake)

    def peer_certificate(self) -> bytes:
        """Return the leaf as DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    async def read(self) -> bytes:
        """Return some bytes, or nothing at the end; an alert is an `ssl.SSLError`."""
        try:
            return await self._drive(lambda: self._tls.read(CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        self._tls.write(data)  # a memory BIO takes everything
        await self._send()

    def close(self) -> None:
        """Say goodbye if that needs no waiting, and close."""
        with contextlib.suppress(ssl.SSLError, OSError, ValueError):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
            self._sock.send(self._outgoing.read())
        self._sock.close()

    async def _drive(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._try_to_send()
                await self._receive()
            except ssl.SSLError:
                await self._try_to_send()  # the alert that tells the peer why
                raise
            else:
                await self._try_to_send()
                return result

    async def _receive(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._sock, CHUNK)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _try_to_send(self) -> None:
        """A peer that takes nothing any more may still have said why: that is read before anything is concluded."""
        with contextlib.suppress(OSError):
            await self._send()

    async def _send(self) -> None:
        async with self._sending:
            while data := self._outgoing.read():
                await asyncio.get_running_loop().sock_sendall(self._sock, data)
