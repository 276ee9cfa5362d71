"""A TLS server with scripted gRPC behind it: answers as a test says, hostile ones too, and notes what it received."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from libs.endpoint import Endpoint
from libs.talos.pb import machine_pb2, machine_pb2_grpc, resource_pb2, specs_pb2, state_pb2, state_pb2_grpc
from libs.talos.tls import CHUNK, TlsStream

UUID = "11112222-3333-4444-5555-666677778888"
MAC = "02:00:00:00:00:01"


@dataclass
class Api:
    """What the node answers. A callable instead of a value is called with the request and the context."""

    uuid: str = UUID
    serial: str = "SN-1"
    with_system_information: bool = True
    links: list[specs_pb2.LinkStatus] = field(default_factory=lambda: [link(MAC)])
    configuration: bytes = b"version: v1alpha1\nmachine: {}\n"
    apply: Any = None
    get: Any = None
    listing: Any = None
    version: Any = None
    applied: list[machine_pb2.ApplyConfigurationRequest] = field(default_factory=list)


def link(mac: str, **fields: Any) -> specs_pb2.LinkStatus:
    """A link of the physical kind, unless `fields` say otherwise."""
    given: dict[str, Any] = {
        "type": specs_pb2.LINK_TYPE_ETHER,
        "permanent_addr": bytes.fromhex(mac.replace(":", "")),
    } | fields
    return specs_pb2.LinkStatus(**given)


def resource(spec: Message) -> resource_pb2.Resource:
    return resource_pb2.Resource(spec=resource_pb2.Spec(proto_spec=spec.SerializeToString()))


class _Machine(machine_pb2_grpc.MachineServiceServicer):
    def __init__(self, api: Api) -> None:
        self.api = api

    async def Version(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.api.version:
            return await self.api.version(request, context)
        info = machine_pb2.VersionInfo(tag="v1.13.9")
        return machine_pb2.VersionResponse(messages=[machine_pb2.Version(version=info)])

    async def ApplyConfiguration(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.api.applied.append(request)
        if self.api.apply:
            return await self.api.apply(request, context)
        answer = machine_pb2.ApplyConfiguration(mode=machine_pb2.ApplyConfigurationRequest.NO_REBOOT, warnings=["w"])
        return machine_pb2.ApplyConfigurationResponse(messages=[answer])


class _State(state_pb2_grpc.StateServicer):
    def __init__(self, api: Api) -> None:
        self.api = api

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        api = self.api
        if api.get:
            return await api.get(request, context)
        specs: dict[tuple[str, str, str], Message] = {
            ("config", "MachineConfigs.config.talos.dev", "v1alpha1"): specs_pb2.MachineConfig(
                yaml_marshalled=api.configuration
            ),
            ("k8s", "Nodenames.kubernetes.talos.dev", "nodename"): specs_pb2.Nodename(nodename="node-1"),
        }
        if api.with_system_information:
            specs["hardware", "SystemInformations.hardware.talos.dev", "systeminformation"] = (
                specs_pb2.SystemInformation(uuid=api.uuid, serial_number=api.serial)
            )
        spec = specs.get((request.namespace, request.type, request.id))
        if spec is None:
            return await context.abort(grpc.StatusCode.NOT_FOUND, "no such resource")
        return state_pb2.GetResponse(resource=resource(spec))

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.api.listing:
            async for answer in self.api.listing(request, context):
                yield answer
            return
        assert (request.namespace, request.type) == ("network", "LinkStatuses.net.talos.dev")
        for status in self.api.links:
            yield state_pb2.ListResponse(resource=resource(status))


class _Garbage(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in the stubs alone
    def __init__(self, garbage: bytes) -> None:
        self.garbage = garbage

    def service(self, handler_call_details: Any) -> Any:
        async def answer(request: bytes, context: Any) -> bytes:
            return self.garbage

        return grpc.unary_unary_rpc_method_handler(answer)


@dataclass
class FakeNode:
    """What the server has seen; `received` holds the decrypted bytes of each connection."""

    endpoint: Endpoint
    context: ssl.SSLContext
    api: Api
    handshakes: int = 0
    received: list[bytearray] = field(default_factory=list)


@asynccontextmanager
async def node(
    context: ssl.SSLContext,
    api: Api | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    garbage: bytes | None = None,
    compression: grpc.Compression | None = None,
) -> AsyncIterator[FakeNode]:
    """Serve one node; with `garbage` these bytes are its answer to every unary call."""
    with tempfile.TemporaryDirectory(prefix="fake-") as folder:
        api = api or Api()
        server = grpc.aio.server(
            options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
            compression=compression,
        )
        if garbage is None:
            machine_pb2_grpc.add_MachineServiceServicer_to_server(_Machine(api), server)  # type: ignore[abstract]
            state_pb2_grpc.add_StateServicer_to_server(_State(api), server)  # type: ignore[abstract]
        else:
            server.add_generic_rpc_handlers((_Garbage(garbage),))
        path = f"{folder}/{secrets.token_hex(4)}"
        server.add_insecure_port(f"unix:{path}")
        await server.start()

        async def serve(sock: socket.socket) -> None:
            stream = TlsStream(sock, fake.context, server_side=True)
            with contextlib.suppress(OSError):
                await stream.handshake()
                fake.handshakes += 1
                await _splice(stream, path, fake)
            stream.close()

        async with tcp_server(serve, host=host, port=port) as endpoint:
            fake = FakeNode(endpoint, context, api)
            try:
                yield fake
            finally:
                await server.stop(None)


@asynccontextmanager
async def tcp_server(
    serve: Callable[[socket.socket], Awaitable[None]], *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Endpoint]:
    """Run `serve` for each accepted connection until the block ends."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
        listener.setblocking(False)
        tasks: set[asyncio.Task[None]] = set()

        async def one(sock: socket.socket) -> None:
            with sock:
                await serve(sock)

        async def accept() -> None:
            while True:
                sock, _ = await loop.sock_accept(listener)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                task = loop.create_task(one(sock))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        accepting = loop.create_task(accept())
        try:
            yield Endpoint(host, listener.getsockname()[1])
        finally:
            running = [accepting, *tasks]
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def _splice(stream: TlsStream, path: str, fake: FakeNode) -> None:
    loop = asyncio.get_running_loop()
    received = bytearray()
    fake.received.append(received)
    with socket.socket(socket.AF_UNIX) as local:
        local.setblocking(False)
        await loop.sock_connect(local, path)

        async def outward() -> None:
            while data := await loop.sock_recv(local, CHUNK):
                await stream.write(data)

        writing = loop.create_task(outward())
        try:
            while data := await stream.read():
                received += data
                await loop.sock_sendall(local, data)
        finally:
            writing.cancel()
            await asyncio.wait([writing])


def tls_server_of(
    context: ssl.SSLContext, talk: Callable[[TlsStream], Awaitable[None]]
) -> Callable[[socket.socket], Awaitable[None]]:
    """A `serve` for `tcp_server` that finishes the handshake and then lets `talk` do anything."""

    async def serve(sock: socket.socket) -> None:
        stream = TlsStream(sock, context, server_side=True)
        with contextlib.suppress(OSError):
            await stream.handshake()
            await talk(stream)
        stream.close()

    return serve


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
