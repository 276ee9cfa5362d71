"""A node with fixed answers behind the real port, and ways to speak to it as any client would."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from libs.endpoint import Endpoint
from libs.talos import serve
from libs.talos.pb import machine_pb2_grpc, state_pb2_grpc
from libs.talos.serve import specs
from libs.talos.tls import TlsStream
from libs.talos.tunnel import open_tunnel

SECONDS = 5.0
HOST = "127.0.0.1"


@dataclass
class FixedNode:
    """What a test wants a node to be."""

    in_maintenance: bool = True
    forwards: bool = False
    name: str = "node-1"
    resources: serve.Resources = field(default_factory=lambda: serve.Resources(itertools.count(1000.5).__next__))
    peers: list[serve.Peer] = field(default_factory=list)
    applied: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    neighbours: dict[str, serve.NodeApi] = field(default_factory=dict)
    now: serve.Conduct = serve.Conduct.NORMAL

    def __post_init__(self) -> None:
        self.show("running", b"version: v1alpha1\n")

    def show(self, stage: str, configuration: bytes) -> None:
        """Change what the resources say."""
        shown = {**serve.definition_specs(), **specs.machine_status(stage), **specs.hostname_status(self.name)}
        for id_ in ("v1alpha1", "persistent"):
            shown |= specs.machine_config(id_, configuration)
        self.resources.become(shown)

    def conduct(self) -> serve.Conduct:
        return self.now

    def connected(self, peer: serve.Peer) -> None:
        self.peers.append(peer)

    def is_me(self, target: str) -> bool:
        return target == self.name

    def neighbour(self, target: str) -> serve.NodeApi | None:
        return self.neighbours.get(target)

    def version(self) -> serve.VersionInfo:
        return serve.VersionInfo(tag="v1.13.9", rbac=None if self.in_maintenance else True)

    def hostname(self) -> str:
        return self.name

    async def apply_configuration(self, data: bytes, mode: serve.Mode, *, dry_run: bool) -> serve.Applied:
        if data == b"refuse":
            raise serve.Refusal(serve.Code.FAILED_PRECONDITION, "busy")
        self.applied.append(data)
        return serve.Applied(serve.Mode.NO_REBOOT, "applied", ("careful",))

    def reboot(self) -> None:
        self.asked.append("reboot")

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    def reset(self, *, labels: Iterable[str], reboot: bool) -> None:
        self.asked.append(f"reset {','.join(labels)} {reboot}")

    def read_file(self, path: str) -> bytes:
        if path != "/file":
            raise serve.Refusal(serve.Code.NOT_FOUND, f"no {path}")
        return b"x" * 150_000


@dataclass
class Port:
    """One open port."""

    node: FixedNode
    number: int
    listener: serve.Listener
    leaf: serve.Leaf
    authority: serve.Authority


@asynccontextmanager
async def port_of(
    node: FixedNode, *, authority: serve.Authority | None = None, accepts: Iterable[serve.Authority] = ()
) -> AsyncIterator[Port]:
    """Serve the node; clients of the authorities that it `accepts` are asked for their certificates."""
    authority = authority or serve.Authority.for_cluster()
    leaf = authority.issue_server(node.name, addresses=[HOST])
    number = free_port()
    async with serve.Listener(node, port=number) as listener:
        await listener.present(serve.Presented(leaf, tuple(each.certificate_pem for each in accepts)))
        listener.listen([HOST])
        yield Port(node, number, listener, leaf, authority)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


def client_context(certificate: serve.Leaf | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.certificate_pem + certificate.key_pem)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def tls_to(port: Port, context: ssl.SSLContext | None = None) -> AsyncIterator[TlsStream]:
    """A client's end of a connection, before any handshake."""
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (HOST, port.number))
    stream = TlsStream(sock, context or client_context())
    try:
        async with asyncio.timeout(SECONDS):
            yield stream
    finally:
        stream.close()


@asynccontextmanager
async def channel_to(port: Port, certificate: serve.Leaf | None = None) -> AsyncIterator[grpc.aio.Channel]:
    """gRPC over our own TLS, since gRPC's cannot read an Ed25519 leaf."""
    async with tls_to(port, client_context(certificate)) as stream, AsyncExitStack() as stack:
        await stream.handshake()
        tunnel = await open_tunnel(
            stack,
            stream,
            Endpoint(HOST, port.number),
            answer_bytes_max=64 * 1024 * 1024,
            with_certificate=certificate is not None,
        )
        yield tunnel.channel


def machine_at(channel: grpc.aio.Channel) -> Any:
    """Return the machine service's stub, as untyped as gRPC's own types for asyncio are."""
    return machine_pb2_grpc.MachineServiceStub(channel)


def state_at(channel: grpc.aio.Channel) -> Any:
    """Return the State service's stub."""
    return state_pb2_grpc.StateStub(channel)
