"""The port of one node: TLS on every address, and verified streams handed to gRPC over a private Unix socket.

Our end of each hand-over is bound to a fresh path of its own in a folder that only we can enter. gRPC reports that
path as the caller's peer, and so every call is known to belong to one handshake and its roles.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from libs.talos.serve import machine, refused, state
from libs.talos.serve.admission import CertificateNotForClientsError, roles_of
from libs.talos.serve.api import Conduct, NodeApi, Peer, Role
from libs.talos.serve.calls import Peers
from libs.talos.serve.certificates import Leaf
from libs.talos.serve.tls import reset, server_context
from libs.talos.tls import CHUNK, TlsStream

HANDSHAKE_SECONDS = 10.0
REQUEST_BYTES_MAX = 32 * 1024 * 1024
GOODBYE_SECONDS = 0.3
"""How long clients may take to hang up after the last call of a port that closes."""
CONNECTIONS_MAX = 512
"""More at one time are reset, so that a runaway client cannot take the whole fleet's files."""


class AddressInUseError(OSError):
    """Somebody else has the address and port already, or it is not an address of this host."""


@dataclass(frozen=True)
class Presented:
    """What the port shows: a leaf and, once configured, the authorities (PEM) that clients must come from."""

    leaf: Leaf
    client_authorities: tuple[bytes, ...] = ()


class Listener:
    """One node's open port. Use as `async with`; enter and leave it in the same task."""

    def __init__(self, node: NodeApi, *, port: int) -> None:
        self._node = node
        self._port = port
        self._peers = Peers()
        self._accepting: dict[str, asyncio.Task[None]] = {}
        self._connections: dict[asyncio.Task[None], str] = {}
        self._hung: list[socket.socket] = []
        self._hanging: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="nodetrail-"))  # 0700
        self._grpc = grpc.aio.server(
            options=[("grpc.max_receive_message_length", REQUEST_BYTES_MAX), ("grpc.max_send_message_length", -1)]
        )
        machine.register(self._grpc, self._node, self._peers)
        state.register(self._grpc, self._node, self._peers)
        refused.register(self._grpc, self._peers)
        self._grpc.add_insecure_port(f"unix:{self._folder}/grpc")
        await self._grpc.start()
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_accepting(list(self._accepting))
        for task in self._connections:
            task.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
            await self._stop_grpc(0)
        finally:
            for sock in self._hung:
                reset(sock)
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._connections)

    async def present(self, presented: Presented) -> None:
        """Show this to whoever connects from now on; open connections keep what they saw."""
        self._context = await asyncio.to_thread(server_context, presented.leaf, presented.client_authorities)
        self._demands_certificate = bool(presented.client_authorities)

    def listen(self, addresses: Iterable[str]) -> None:
        """Listen on exactly these addresses; connections to those given up hang, as with a lease that was lost."""
        wanted = list(dict.fromkeys(addresses))
        gone = [address for address in self._accepting if address not in wanted]
        self._stop_accepting(gone)
        self._hang(gone)
        for address in wanted:
            if address not in self._accepting:
                sock = bound(address, self._port)
                self._accepting[address] = task = self._tasks.create_task(self._accept(address, sock))
                task.add_done_callback(_closes(sock))  # should it be cancelled before it has begun

    async def finish(self, grace_seconds: float) -> None:
        """Stop listening, let the calls under way end, and close what is still open after that."""
        self._stop_accepting(list(self._accepting))
        await self._stop_grpc(grace_seconds)
        open_ones = list(self._connections)
        if open_ones:
            _, late = await asyncio.wait(open_ones, timeout=GOODBYE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.wait(open_ones)

    def cut(self) -> None:
        """Fall silent as with a power cut: nothing listens, and open connections hang until the block ends."""
        addresses = list(self._accepting)
        self._stop_accepting(addresses)
        self._hang(addresses)

    async def _stop_grpc(self, grace_seconds: float) -> None:
        await self._grpc.stop(grace_seconds)
        # gRPC waits with `asyncio.wait_for`, which loses a cancellation that arrives just as the wait ends.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError

    def _stop_accepting(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._accepting.pop(address).cancel()

    def _hang(self, addresses: Iterable[str]) -> None:
        gone = set(addresses)
        for task, address in self._connections.items():
            if address in gone:
                self._hanging.add(task)
                task.cancel()

    async def _accept(self, address: str, listener: socket.socket) -> None:
        # Closed here and not by whoever cancels: the loop must let go of the file before its number is used again.
        with listener:
            while True:
                try:
                    connection, remote = await asyncio.get_running_loop().sock_accept(listener)
                except OSError:  # out of files, or the peer has gone already
                    await asyncio.sleep(0.05)
                    continue
                if len(self._connections) >= CONNECTIONS_MAX:
                    reset(connection)
                    continue
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                task = self._tasks.create_task(self._serve(connection, str(remote[0])))
                self._connections[task] = address
                task.add_done_callback(self._ended)
                task.add_done_callback(_closes(connection, unless=self._hung))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task, None)
        self._hanging.discard(task)

    async def _serve(self, connection: socket.socket, remote: str) -> None:
        stream = TlsStream(connection, self._context, server_side=True)
        try:
            await self._converse(connection, stream, remote)
        except asyncio.CancelledError:
            if asyncio.current_task() in self._hanging and len(self._hung) < CONNECTIONS_MAX:
                self._hung.append(connection)
            else:
                reset(connection)
            raise
        except (OSError, CertificateNotForClientsError):
            stream.close()  # an alert has been sent already, if there is one to send
        else:
            stream.close()

    async def _converse(self, connection: socket.socket, stream: TlsStream, remote: str) -> None:
        conduct = self._node.conduct()
        if conduct is Conduct.SILENT:
            while await asyncio.get_running_loop().sock_recv(connection, CHUNK):
                pass
            return
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await stream.handshake()
        peer = Peer(remote, self._roles(stream))
        self._node.connected(peer)
        if conduct is Conduct.DROPPED:
            reset(connection)
            return
        with self._peers.as_path(self._folder / secrets.token_hex(8), peer) as path:
            await self._hand_over(stream, path)

    def _roles(self, stream: TlsStream) -> frozenset[str]:
        if not self._demands_certificate:
            return frozenset({Role.READER})
        return roles_of(stream.peer_certificate())

    async def _hand_over(self, stream: TlsStream, path: Path) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as local:
            local.setblocking(False)
            local.bind(str(path))
            await loop.sock_connect(local, f"{self._folder}/grpc")
            async with asyncio.TaskGroup() as group:
                inward = group.create_task(_inward(stream, local))
                with contextlib.suppress(OSError):
                    while data := await loop.sock_recv(local, CHUNK):
                        await stream.write(data)
                inward.cancel()


async def _inward(stream: TlsStream, local: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := await stream.read():
            await asyncio.get_running_loop().sock_sendall(local, data)
    with contextlib.suppress(OSError):
        local.shutdown(socket.SHUT_RDWR)  # the client has gone: gRPC ends its calls


def _closes(sock: socket.socket, *, unless: Collection[socket.socket] = ()) -> Callable[[object], None]:
    """Close a socket with the task that owns it, which may have been cancelled before it began."""

    def close(_: object) -> None:
        if sock not in unless:
            sock.close()

    return close


def bound(address: str, port: int) -> socket.socket:
    """Return a listening socket that does not block, or raise `AddressInUseError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise AddressInUseError(error.errno, f"cannot listen on {address} port {port}: {error.strerror}") from error
    return sock
