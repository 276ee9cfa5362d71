"""The TLS of a node's port, byte for byte of what a client may see, and the roles that come with a certificate."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

import grpc
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from google.protobuf.empty_pb2 import Empty

from libs import talos
from libs.talos import serve
from libs.talos.pb import machine_pb2
from tests.libs.talos.serve.parts import HOST, FixedNode, channel_to, client_context, machine_at, port_of, tls_to

CLUSTER = serve.Authority.for_cluster()
ADMIN = CLUSTER.issue_client([serve.Role.ADMIN])
OPERATOR = CLUSTER.issue_client([serve.Role.OPERATOR])
READER = CLUSTER.issue_client([serve.Role.READER])
NOBODY = CLUSTER.issue_client(["os:unheard-of"])


def configured(**more: object) -> FixedNode:
    return FixedNode(in_maintenance=False, **more)  # type: ignore[arg-type]  # the test says which


async def test_it_shows_tls_1_3_h2_and_the_leaf_alone() -> None:
    async with port_of(FixedNode()) as port, tls_to(port) as stream:
        await stream.handshake()
        tls = stream._tls
        assert tls.version() == "TLSv1.3"
        assert tls.selected_alpn_protocol() == "h2"
        assert talos.fingerprint(stream.peer_certificate()) == port.leaf.fingerprint


async def test_a_client_held_to_tls_1_2_is_refused() -> None:
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with port_of(FixedNode()) as port, tls_to(port, context) as stream:
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            await stream.handshake()


async def test_a_client_that_offers_no_alpn_is_served() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with port_of(FixedNode()) as port, tls_to(port, context) as stream:
        await stream.handshake()
        await stream.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        assert await stream.read()


@pytest.mark.parametrize(
    ("certificate", "alert"),
    [
        pytest.param(None, r"(?i)certificate.required", id="none"),
        pytest.param(serve.Authority.for_cluster().issue_client(["os:admin"]), "(?i)unknown.ca", id="stranger"),
        pytest.param(
            CLUSTER.issue_client(["os:admin"], lifetime=timedelta(hours=-1)), "(?i)certificate.expired", id="expired"
        ),
    ],
)
async def test_a_refused_client_finishes_its_handshake_and_then_reads_why(
    certificate: serve.Leaf | None, alert: str
) -> None:
    async with port_of(configured(), accepts=[CLUSTER]) as port, tls_to(port, client_context(certificate)) as stream:
        await stream.handshake()
        assert talos.fingerprint(stream.peer_certificate()) == port.leaf.fingerprint
        with pytest.raises(ssl.SSLError, match=alert):
            await stream.read()
        assert not port.node.peers


async def test_the_alert_is_there_for_whoever_writes_first() -> None:
    async with port_of(configured(), accepts=[CLUSTER]) as port:
        for _ in range(20):
            async with tls_to(port) as stream:
                await stream.handshake()
                await stream.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                await asyncio.sleep(0.02)  # long enough for the refusal to be complete
                with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
                    await stream.read()


@pytest.mark.parametrize(
    "usages",
    [[ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.SERVER_AUTH], []],
)
async def test_a_certificate_that_is_not_for_clients_alone_is_refused(usages: Iterable[object]) -> None:
    certificate = CLUSTER.issue_client(["os:admin"], usages=usages)  # type: ignore[arg-type]  # they are identifiers
    async with port_of(configured(), accepts=[CLUSTER]) as port, tls_to(port, client_context(certificate)) as stream:
        await stream.handshake()
        said = b""
        with contextlib.suppress(ssl.SSLError):  # an alert, where OpenSSL itself objects
            said = await stream.read()
        assert said == b""
        assert not port.node.peers


async def test_one_of_several_accepted_authorities_is_enough() -> None:
    other = serve.Authority.for_cluster()
    async with port_of(configured(), accepts=[other, CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        await machine_at(channel).Version(Empty())
        (peer,) = port.node.peers
        assert peer == serve.Peer(HOST, frozenset({"os:admin"}))


async def test_another_leaf_is_for_new_connections_only() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        machine = machine_at(channel)
        await machine.Version(Empty())
        leaf = port.authority.issue_server("node-1", addresses=[HOST])

        await port.listener.present(serve.Presented(leaf))

        await machine.Version(Empty())
        async with tls_to(port) as stream:
            await stream.handshake()
            assert talos.fingerprint(stream.peer_certificate()) == leaf.fingerprint != port.leaf.fingerprint


# Who may do what. Allowed is told from refused by the code: 7 and nothing else.

CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "Version": lambda m: m.Version(Empty()),
    "Hostname": lambda m: m.Hostname(Empty()),
    "ServiceList": lambda m: m.ServiceList(Empty()),
    "ApplyConfiguration": lambda m: m.ApplyConfiguration(machine_pb2.ApplyConfigurationRequest(data=b"x")),
    "Reboot": lambda m: m.Reboot(machine_pb2.RebootRequest()),
    "Shutdown": lambda m: m.Shutdown(machine_pb2.ShutdownRequest()),
    "Reset": lambda m: m.Reset(machine_pb2.ResetRequest()),
    "Read": lambda m: _whole(m.Read(machine_pb2.ReadRequest(path="/file"))),
}
READING = {"Version", "Hostname", "ServiceList"}


async def _whole(stream: Any) -> bytes:
    return b"".join([data.bytes async for data in stream])


async def allowed(machine: Any) -> set[str]:
    found = set()
    for name, call in CALLS.items():
        try:
            await call(machine)
        except grpc.aio.AioRpcError as error:
            if (error.code(), error.details()) != (grpc.StatusCode.PERMISSION_DENIED, "not authorized"):
                raise
        else:
            found.add(name)
    return found


async def test_in_maintenance_everybody_reads_and_applies() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        assert await allowed(machine_at(channel)) == READING | {"ApplyConfiguration"}
        assert port.node.asked == []


@pytest.mark.parametrize(
    ("certificate", "may"),
    [
        pytest.param(ADMIN, set(CALLS), id="admin"),
        pytest.param(OPERATOR, READING | {"Reboot", "Shutdown"}, id="operator"),
        pytest.param(READER, READING, id="reader"),
        pytest.param(NOBODY, set(), id="nobody"),
        pytest.param(CLUSTER.issue_client(["os:unheard-of", "os:reader"]), READING, id="two roles"),
    ],
)
async def test_once_configured_roles_decide(certificate: serve.Leaf, may: set[str]) -> None:
    async with port_of(configured(), accepts=[CLUSTER]) as port, channel_to(port, certificate) as channel:
        assert await allowed(machine_at(channel)) == may


@pytest.mark.parametrize(
    ("method", "node", "certificate", "code"),
    [
        ("/machine.MachineService/Upgrade", FixedNode(), None, grpc.StatusCode.PERMISSION_DENIED),
        ("/machine.MachineService/Upgrade", configured(), READER, grpc.StatusCode.PERMISSION_DENIED),
        ("/machine.MachineService/Upgrade", configured(), ADMIN, grpc.StatusCode.UNIMPLEMENTED),
        ("/machine.MachineService/Nonsense", FixedNode(), None, grpc.StatusCode.UNIMPLEMENTED),
        ("/cosi.resource.State/Create", FixedNode(), None, grpc.StatusCode.PERMISSION_DENIED),
        ("/cosi.resource.State/Destroy", configured(), ADMIN, grpc.StatusCode.PERMISSION_DENIED),
        ("/nonsense.Service/Call", configured(), ADMIN, grpc.StatusCode.UNIMPLEMENTED),
    ],
)
async def test_what_is_not_played_still_has_its_code(
    method: str, node: FixedNode, certificate: serve.Leaf | None, code: grpc.StatusCode
) -> None:
    accepts = [CLUSTER] if certificate else []
    async with port_of(node, accepts=accepts) as port, channel_to(port, certificate) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(method, bytes, bytes)(b"")
        assert refused.value.code() is code


async def test_two_clients_at_once_keep_their_own_roles() -> None:
    async with (
        port_of(configured(), accepts=[CLUSTER]) as port,
        channel_to(port, ADMIN) as one,
        channel_to(port, READER) as other,
    ):
        for _ in range(5):
            assert await allowed(machine_at(one)) == set(CALLS)
            assert await allowed(machine_at(other)) == READING


# Forwarding.


async def test_a_control_plane_passes_requests_on_and_a_worker_does_not() -> None:
    far = configured(name="far")
    near = configured(name="near", forwards=True, neighbours={"far": far})
    async with port_of(near, accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        machine = machine_at(channel)
        one = await machine.Hostname(Empty(), metadata=[("node", "far")])
        assert (one.messages[0].hostname, one.messages[0].HasField("metadata")) == ("far", False)
        many = await machine.Hostname(Empty(), metadata=[("nodes", "near"), ("nodes", "far"), ("nodes", "gone")])
        assert [m.hostname for m in many.messages] == ["near", "far", ""]
        assert [m.metadata.hostname for m in many.messages] == ["near", "far", "gone"]
        assert many.messages[2].metadata.status.code == 14
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await machine.Hostname(Empty(), metadata=[("node", "gone")])
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await machine.Hostname(Empty(), metadata=[("node", "near"), ("node", "far")])
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

        near.forwards = False
        assert (await machine.Hostname(Empty(), metadata=[("node", "near")])).messages[0].hostname == "near"
        with pytest.raises(grpc.aio.AioRpcError, match="no request forwarding"):
            await machine.Hostname(Empty(), metadata=[("node", "far")])


async def test_in_maintenance_the_headers_mean_nothing() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        answer = await machine_at(channel).Hostname(Empty(), metadata=[("node", "far")])
        assert answer.messages[0].hostname == "node-1"


# What the methods answer.


async def test_a_file_comes_in_pieces_and_a_missing_one_is_not_found() -> None:
    async with port_of(configured(), accepts=[CLUSTER]) as port, channel_to(port, ADMIN) as channel:
        machine = machine_at(channel)
        assert await _whole(machine.Read(machine_pb2.ReadRequest(path="/file"))) == b"x" * 150_000
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _whole(machine.Read(machine_pb2.ReadRequest(path="/none")))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_applied_configuration_tells_its_mode_and_a_refused_one_its_code() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        machine = machine_at(channel)
        big = b"y" * (5 * 1024 * 1024)
        (applied,) = (await machine.ApplyConfiguration(machine_pb2.ApplyConfigurationRequest(data=big))).messages
        assert (applied.mode, list(applied.warnings), applied.HasField("metadata")) == (2, ["careful"], False)
        assert port.node.applied == [big]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await machine.ApplyConfiguration(machine_pb2.ApplyConfigurationRequest(data=b"refuse"))
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "busy")


async def test_features_are_told_only_once_configured() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        (version,) = (await machine_at(channel).Version(Empty())).messages
        assert (version.version.tag, version.HasField("features")) == ("v1.13.9", False)
    async with port_of(configured(), accepts=[CLUSTER]) as port, channel_to(port, READER) as channel:
        (version,) = (await machine_at(channel).Version(Empty())).messages
        assert version.features.rbac


async def test_events_begin_empty_and_follow_the_stage() -> None:
    async with port_of(FixedNode()) as port, channel_to(port) as channel:
        events = machine_at(channel).Events(machine_pb2.EventsRequest())
        first = await events.read()
        assert isinstance(first, machine_pb2.Event)
        assert first.data.value == b""
        await asyncio.sleep(0)
        port.node.show("rebooting", b"version: v1alpha1\n")
        second = await events.read()
        assert isinstance(second, machine_pb2.Event)
        assert second.data.type_url == "talos/runtime/machine.MachineStatusEvent"
        assert machine_pb2.MachineStatusEvent.FromString(second.data.value).stage == 5


# The end of a port.


async def test_calls_under_way_end_before_the_port_closes() -> None:
    held = asyncio.Event()

    class Slow(FixedNode):
        async def apply_configuration(self, data: bytes, mode: serve.Mode, *, dry_run: bool) -> serve.Applied:
            await held.wait()
            return serve.Applied(serve.Mode.NO_REBOOT)

    async with port_of(Slow()) as port, channel_to(port) as channel:
        machine = machine_at(channel)
        call = machine.ApplyConfiguration(machine_pb2.ApplyConfigurationRequest(data=b"x"))
        await channel.channel_ready()
        await asyncio.sleep(0.1)  # long enough for the call to be under way
        finishing = asyncio.ensure_future(port.listener.finish(5))
        asyncio.get_running_loop().call_later(0.1, held.set)

        assert (await call).messages[0].mode == 2
        await finishing
        assert port.listener.connections == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, port.number)


async def test_a_client_that_never_speaks_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.talos.serve.listener.HANDSHAKE_SECONDS", 0.1)
    async with port_of(FixedNode()) as port:
        reader, writer = await asyncio.open_connection(HOST, port.number)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_what_is_no_tls_harms_nobody() -> None:
    async with port_of(FixedNode()) as port:
        reader, writer = await asyncio.open_connection(HOST, port.number)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(5):
                await reader.read()
        writer.close()
        async with channel_to(port) as channel:
            await machine_at(channel).Version(Empty())


async def test_too_many_connections_are_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.talos.serve.listener.CONNECTIONS_MAX", 2)
    async with port_of(FixedNode(now=serve.Conduct.SILENT)) as port:
        open_ones = [await asyncio.open_connection(HOST, port.number) for _ in range(2)]
        reader, writer = await asyncio.open_connection(HOST, port.number)
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(5):
                await reader.read()
        for _, each in [*open_ones, (reader, writer)]:
            each.close()


async def test_an_address_in_use_is_named() -> None:
    async with port_of(FixedNode()) as port, serve.Listener(FixedNode(), port=port.number) as second:
        with pytest.raises(serve.AddressInUseError, match=f"cannot listen on {HOST} port {port.number}"):
            second.listen([HOST])
