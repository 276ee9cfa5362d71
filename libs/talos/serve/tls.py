"""TLS as Talos offers it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Iterable
from pathlib import Path

from libs.talos.serve.certificates import Leaf


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


def reset(sock: socket.socket) -> None:
    """Close a socket so that its peer gets a reset instead of an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
