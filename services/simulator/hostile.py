"""Broken and hostile things at an address: each breaks off, or never ends, at another layer."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace

from libs.talos import serve
from libs.talos.tls import TlsStream
from services.simulator.node import Node
from services.simulator.spec import HostileKind, HostileSpec, NodeSpec

LIFETIME_SECONDS = 60.0
"""After this a connection is closed whatever it does: the simulator must outlive its own boxes."""
TRICKLE_SECONDS = 0.5
HUGE_BYTES = 8 * 1024 * 1024
HUGE_NAMES = 20_000


class Hostile(ABC):
    """Accepts connections and lets a subclass do with each what it likes."""

    names: Iterable[str] = ()

    def __init__(self, spec: HostileSpec) -> None:
        self.port = spec.port
        self._address = spec.address
        self._leaf = serve.Authority.for_maintenance().issue_server(
            serve.MAINTENANCE_NAME, addresses=[spec.address], names=self.names
        )
        self.connections = 0

    async def open(self) -> None:
        self._context = await asyncio.to_thread(serve.server_context, self._leaf)
        self._socket = serve.bound(self._address, self.port)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with self._socket:
            async with asyncio.TaskGroup() as connections:
                while True:
                    connection, _ = await loop.sock_accept(self._socket)
                    self.connections += 1
                    connections.create_task(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                async with asyncio.timeout(LIFETIME_SECONDS):
                    await self.answer(connection)
            except (OSError, TimeoutError):  # the client had enough, or we have; OSError includes ssl.SSLError
                return

    @abstractmethod
    async def answer(self, connection: socket.socket) -> None:
        """Treat one connection; it is closed afterwards."""

    async def _tls(self, connection: socket.socket) -> TlsStream:
        stream = TlsStream(connection, self._context, server_side=True)
        await stream.handshake()
        return stream


class _Garbage(Hostile):
    """Bytes that are no TLS at all."""

    async def answer(self, connection: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(connection, os.urandom(4096))


class _Silent(Hostile):
    """Accepts, and says nothing."""

    async def answer(self, connection: socket.socket) -> None:
        while await asyncio.get_running_loop().sock_recv(connection, 65536):
            pass


class _Resets(Hostile):
    """Accepts, and resets."""

    async def answer(self, connection: socket.socket) -> None:
        serve.reset(connection)


class _SlowLoris(Hostile):
    """The start of a server's handshake, one byte at a time."""

    async def answer(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for byte in b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + bytes(1000):
            await loop.sock_sendall(connection, bytes([byte]))
            await asyncio.sleep(TRICKLE_SECONDS)


class _Endless(Hostile):
    """A good handshake, then bytes without end."""

    async def answer(self, connection: socket.socket) -> None:
        stream = await self._tls(connection)
        while True:
            await stream.write(b"\0" * 16384)


class _GarbageHttp2(Hostile):
    """A good handshake, then what is no HTTP/2."""

    async def answer(self, connection: socket.socket) -> None:
        stream = await self._tls(connection)
        await stream.read()
        await stream.write(b"HTTP/1.1 200 OK\r\n\r\n" + os.urandom(4096))
        stream.close()


class _HugeCertificate(Hostile):
    """A leaf with so many names that it fills half a megabyte."""

    names = tuple(f"name-{number:05}.huge.example" for number in range(HUGE_NAMES))

    async def answer(self, connection: socket.socket) -> None:
        stream = await self._tls(connection)
        while await stream.read():
            pass


_RAW: Mapping[HostileKind, type[Hostile]] = {
    HostileKind.GARBAGE: _Garbage,
    HostileKind.SILENT: _Silent,
    HostileKind.ENDLESS: _Endless,
    HostileKind.SLOW_LORIS: _SlowLoris,
    HostileKind.RESETS: _Resets,
    HostileKind.HUGE_CERTIFICATE: _HugeCertificate,
    HostileKind.GARBAGE_HTTP2: _GarbageHttp2,
}
STRANGE = frozenset({HostileKind.HUGE_ANSWER, HostileKind.WRONG_TYPES})
"""These are nodes whose TLS and gRPC are right, and whose identity is not."""


def hostile_at(spec: HostileSpec) -> Hostile:
    """Make what breaks off before any gRPC is spoken; nothing is opened yet."""
    return _RAW[spec.kind](spec)


class StrangeNode(Node):
    """A node in maintenance mode that tells an identity of 8 MiB, or one that cannot be decoded."""

    def __init__(self, spec: HostileSpec, *, seed: int) -> None:
        self._kind = spec.kind
        super().__init__(
            NodeSpec(name=f"hostile-{spec.address}", addresses=(spec.address,), port=spec.port),
            seed=seed,
            clock=time.time,
        )

    def wanted_resources(self) -> Mapping[serve.Key, serve.Spec]:
        shown = super().wanted_resources()
        change = _huge if self._kind is HostileKind.HUGE_ANSWER else _garbled
        return {key: change(spec) if key.type in _IDENTITY_TYPES else spec for key, spec in shown.items()}


_IDENTITY_TYPES = ("SystemInformations.hardware.talos.dev", "LinkStatuses.net.talos.dev")


def _huge(spec: serve.Spec) -> serve.Spec:
    return replace(spec, yaml="#" * HUGE_BYTES + "\n" + spec.yaml)


def _garbled(spec: serve.Spec) -> serve.Spec:
    return replace(spec, proto=b"\xff" * 64, yaml="- [\x00")
