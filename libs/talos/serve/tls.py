"""TLS of one accepted connection, driven through memory BIOs.

asyncio's own TLS drops the alert when a handshake fails, and the alert (certificate_required, unknown_ca) is
what a client of Talos must be able to read. Here whatever OpenSSL wants to say is sent before the socket closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from libs.talos.serve.certificates import Leaf

CHUNK = 64 * 1024
LINGER_SECONDS = 1.0
"""How long the peer may take to read our last words before the socket is closed."""

T = TypeVar("T")


def server_context(leaf: Leaf, client_authorities: Iterable[bytes] = ()) -> ssl.SSLContext:
    """Return what Talos offers: TLS 1.3, `h2`, the leaf alone, no tickets.

    With authorities (PEM), a client certificate of one of them is demanded; without, none is asked for.
    Reads and writes a file: not for the event loop.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory(prefix="nodetrail-") as folder:  # the standard library loads keys from files only
        path = Path(folder, "leaf.pem")
        path.touch(mode=0o600)
        path.write_bytes(leaf.certificate_pem + leaf.key_pem)
        context.load_cert_chain(path)
    authorities = b"\n".join(client_authorities).decode()
    if authorities:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authorities)
    return context


class TlsStream:
    """A TLS server's end of one socket: one task may read while another writes."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = asyncio.Lock()

    async def handshake(self) -> None:
        """Finish the handshake or raise `ssl.SSLError` after the alert has been sent, `OSError` if the peer left."""
        await self._drive(self._tls.do_handshake)

    def peer_certificate(self) -> bytes | None:
        """Return the verified client certificate as DER, or None when none was asked for."""
        return self._tls.getpeercert(binary_form=True)

    async def read(self) -> bytes:
        """Return some bytes, or nothing at the end."""
        try:
            return await self._drive(lambda: self._tls.read(CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        self._tls.write(data)  # a memory BIO takes everything
        await self._send()

    async def close(self) -> None:
        """Say goodbye if the peer still listens, let it read what is under way, then close."""
        with contextlib.suppress(ssl.SSLError, OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                with contextlib.suppress(ssl.SSLWantReadError):
                    self._tls.unwrap()
                await self._send()
                self._sock.shutdown(socket.SHUT_WR)
                # Closing with unread bytes would reset the connection and take our last words with it.
                while await asyncio.get_running_loop().sock_recv(self._sock, CHUNK):
                    pass
        self._sock.close()

    def reset(self) -> None:
        """Close without a word: the peer gets a reset."""
        reset(self._sock)

    async def _drive(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._send()
                await self._receive()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    await self._send()
                raise
            else:
                await self._send()
                return result

    async def _receive(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._sock, CHUNK)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _send(self) -> None:
        async with self._sending:
            while data := self._outgoing.read():
                await asyncio.get_running_loop().sock_sendall(self._sock, data)


def reset(sock: socket.socket) -> None:
    """Close a socket so that its peer gets a reset instead of an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
