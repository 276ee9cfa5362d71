"""TLS of one accepted connection: what Talos offers, and an end in which the peer can read why."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path

from libs.talos.serve.certificates import Leaf
from libs.talos.tls import CHUNK, TlsStream

LINGER_SECONDS = 1.0
"""How long the peer may take to read our last words before the socket is closed."""


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


class ServerStream(TlsStream):
    """The server's end: whatever OpenSSL wants to say, such as an alert, reaches the peer before the socket closes."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(sock, context, server_side=True)

    async def finish(self) -> None:
        """Say goodbye if the peer still listens, let it read what is under way, then close."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                with contextlib.suppress(ssl.SSLError):  # it waits for the peer's goodbye, or never got so far
                    self._tls.unwrap()
                await self._send()
                self._sock.shutdown(socket.SHUT_WR)
                # Closing with unread bytes would reset the connection and take our last words with it.
                while await asyncio.get_running_loop().sock_recv(self._sock, CHUNK):
                    pass
        except (OSError, TimeoutError):
            pass  # the peer has gone, or takes too long
        finally:
            self._sock.close()

    def reset(self) -> None:
        """Close without a word: the peer gets a reset."""
        reset(self._sock)


def reset(sock: socket.socket) -> None:
    """Close a socket so that its peer gets a reset instead of an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
