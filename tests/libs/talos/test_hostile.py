"""Boxes that are broken or mean harm: bounded time, bounded memory, and an error that says what was seen."""

from __future__ import annotations

import asyncio
import gc
import socket
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from libs import talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from libs.talos import tunnel
from libs.talos.pb import machine_pb2, resource_pb2, specs_pb2, state_pb2
from libs.talos.tls import TlsStream
from tests.libs.talos import pki
from tests.libs.talos.fake_node import Api, link, node, open_files, resource, tcp_server, tls_server_of

SECONDS = 20.0
SHORT = 0.5
LEAF = pki.issue(pki.authority(organization=None), pki.MAINTENANCE)
CONTEXT = LEAF.server_context()
CLUSTER = pki.authority()
CREDENTIALS = talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, pki.client(CLUSTER)))


async def identity(endpoint: Endpoint, timeout_seconds: float = SECONDS) -> Identity:
    async with talos.maintenance(endpoint, pin=None, timeout_seconds=timeout_seconds) as it:
        return await it.identity()


@asynccontextmanager
async def no_longer_than(seconds: float) -> AsyncIterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


async def test_nobody_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", unused.getsockname()[1])
        with pytest.raises(talos.Unreachable, match="refused") as caught:
            await talos.look(endpoint, SECONDS)
    assert str(endpoint) in str(caught.value)


async def test_a_black_hole() -> None:
    """A full backlog drops what comes next, as a firewall does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        with socket.create_connection(address):
            async with no_longer_than(SHORT + 5):
                with pytest.raises(talos.Unreachable, match=r"0\.5 s"):
                    await talos.look(Endpoint(*address), SHORT)


@pytest.mark.parametrize("open_it", [talos.look, identity])
async def test_silence_instead_of_a_handshake(open_it: Any) -> None:
    async def serve(sock: socket.socket) -> None:
        await asyncio.sleep(60)

    async with tcp_server(serve) as endpoint, no_longer_than(SHORT + 5):
        with pytest.raises(talos.Unreachable, match=r"within 0\.5 s"):
            await open_it(endpoint, SHORT)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", talos.StrangeAnswer),
        (b"\0" * 4096, talos.StrangeAnswer),
        (b"", talos.Unreachable),
    ],
)
async def test_something_other_than_tls(said: bytes, error: type[talos.TalosError]) -> None:
    async def serve(sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_recv(sock, 4096)
        await loop.sock_sendall(sock, said)

    async with tcp_server(serve) as endpoint:
        with pytest.raises(error) as caught:
            await identity(endpoint)
    assert str(endpoint) in str(caught.value)


async def test_an_endless_stream_instead_of_a_handshake() -> None:
    async def serve(sock: socket.socket) -> None:
        while True:
            await asyncio.get_running_loop().sock_sendall(sock, b"\x16\x03\x03\x40\x00" + b"\x02" * 16384)

    async with tcp_server(serve) as endpoint, no_longer_than(2.0 + 5):
        with pytest.raises(talos.TalosError):
            await identity(endpoint, 2.0)


def talking(talk: Callable[[TlsStream], Awaitable[None]]) -> AbstractAsyncContextManager[Endpoint]:
    return tcp_server(tls_server_of(CONTEXT, talk))


async def test_silence_after_the_handshake() -> None:
    async def talk(stream: TlsStream) -> None:
        await asyncio.sleep(60)

    async with talking(talk) as endpoint, no_longer_than(SHORT + 5):
        with pytest.raises(talos.Unreachable, match="no answer"):
            await identity(endpoint, SHORT)


async def test_something_other_than_grpc() -> None:
    async def talk(stream: TlsStream) -> None:
        await stream.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.read()

    async with talking(talk) as endpoint:
        with pytest.raises(talos.StrangeAnswer, match="does not speak gRPC"):
            await identity(endpoint)


async def test_an_endless_stream_after_the_handshake() -> None:
    async def talk(stream: TlsStream) -> None:
        while True:
            await stream.write(b"\0\0\0\4\0\0\0\0\0" * 1000)  # settings, for ever

    async with talking(talk) as endpoint, no_longer_than(2.0 + 5):
        with pytest.raises(talos.TalosError):
            await identity(endpoint, 2.0)


async def test_a_hang_up_after_the_handshake() -> None:
    async def talk(stream: TlsStream) -> None:
        return

    async with talking(talk) as endpoint:
        with pytest.raises(talos.Unreachable, match="closed the connection"):
            await identity(endpoint)


async def test_a_drip_of_bytes_is_not_an_answer() -> None:
    async def talk(stream: TlsStream) -> None:
        while True:
            await stream.write(b"\0")
            await asyncio.sleep(0.05)

    async with talking(talk) as endpoint, no_longer_than(SHORT + 5):
        with pytest.raises(talos.TalosError):
            await identity(endpoint, SHORT)


async def endless_links(request: Any, context: Any) -> AsyncIterator[state_pb2.ListResponse]:
    while True:
        yield state_pb2.ListResponse(resource=resource(link("02:00:00:00:00:01")))


async def many_large_links(request: Any, context: Any) -> AsyncIterator[state_pb2.ListResponse]:
    for _ in range(100):
        yield state_pb2.ListResponse(resource=resource(link("02:00:00:00:00:01", alias="x" * 100_000)))


async def slow_links(request: Any, context: Any) -> AsyncIterator[state_pb2.ListResponse]:
    while True:
        yield state_pb2.ListResponse(resource=resource(link("02:00:00:00:00:01")))
        await asyncio.sleep(0.1)


async def test_an_endless_list_is_cut() -> None:
    for links in (endless_links, many_large_links):
        async with node(CONTEXT, Api(listing=links)) as box:
            with pytest.raises(talos.StrangeAnswer, match="larger"):
                await identity(box.endpoint)


async def test_a_list_that_never_ends_has_a_deadline() -> None:
    async with node(CONTEXT, Api(listing=slow_links)) as box, no_longer_than(SHORT + 5):
        with pytest.raises(talos.Unreachable):
            await identity(box.endpoint, SHORT)


@pytest.mark.parametrize(("compression", "text"), [(None, "larger than"), (grpc.Compression.Gzip, "not of that type")])
async def test_a_huge_answer_is_refused_and_a_packed_one_is_not_unpacked(
    compression: grpc.Compression | None, text: str
) -> None:
    api = Api(uuid="0" * (4 * 1024 * 1024))
    async with node(CONTEXT, api, compression=compression) as box:
        with pytest.raises(talos.StrangeAnswer, match=text):
            await identity(box.endpoint)


async def test_every_answer_has_a_bound() -> None:
    async def version(request: Any, context: Any) -> machine_pb2.VersionResponse:
        info = machine_pb2.VersionInfo(tag="v" * 9 * 1024 * 1024)
        return machine_pb2.VersionResponse(messages=[machine_pb2.Version(version=info)])

    async with (
        node(pki.issue(CLUSTER).server_context(clients=CLUSTER), Api(version=version)) as box,
        talos.configured(box.endpoint, CREDENTIALS, proves=lambda seen: True, timeout_seconds=SECONDS) as it,
    ):
        with pytest.raises(talos.StrangeAnswer, match="larger than"):
            await it.version()


async def test_a_configuration_may_be_larger_than_an_identity_and_not_endless() -> None:
    for size, fine in ((3 * 1024 * 1024, True), (9 * 1024 * 1024, False)):
        api = Api(configuration=b"x" * size)
        async with (
            node(pki.issue(CLUSTER).server_context(clients=CLUSTER), api) as box,
            talos.configured(box.endpoint, CREDENTIALS, proves=lambda seen: True, timeout_seconds=SECONDS) as it,
        ):
            if fine:
                assert len(await it.machine_configuration()) == size
            else:
                with pytest.raises(talos.StrangeAnswer, match="larger"):
                    await it.machine_configuration()


async def test_an_answer_of_the_wrong_type() -> None:
    async def get(request: Any, context: Any) -> state_pb2.GetResponse:
        return state_pb2.GetResponse(resource=resource_pb2.Resource(spec=resource_pb2.Spec(proto_spec=b"\xff\xff")))

    async with node(CONTEXT, Api(get=get)) as box:
        with pytest.raises(talos.StrangeAnswer, match="not of that type"):
            await identity(box.endpoint)


@pytest.mark.parametrize("call", ["identity", "apply_configuration"])
async def test_an_answer_that_is_no_message_at_all(call: str, caplog: pytest.LogCaptureFixture) -> None:
    """gRPC hands that over as None, and logs a traceback for each."""

    async with (
        node(CONTEXT, garbage=b"\xff\xff") as box,
        talos.maintenance(box.endpoint, pin=talos.fingerprint(LEAF.der), timeout_seconds=SECONDS) as it,
    ):
        with pytest.raises(talos.StrangeAnswer, match="not of that type"):
            await (it.identity() if call == "identity" else it.apply_configuration(b"x"))
    assert not caplog.records


@pytest.mark.parametrize(
    "api",
    [
        Api(uuid="x" * 1000),
        Api(serial="x" * 1000),
        Api(links=[link(f"02:00:00:00:{number // 256:02x}:{number % 256:02x}") for number in range(1, 300)]),
    ],
)
async def test_an_identity_that_no_hardware_has(api: Api) -> None:
    async with node(CONTEXT, api) as box:
        with pytest.raises(talos.StrangeAnswer):
            await identity(box.endpoint)


async def test_two_hundred_connections_leave_nothing_behind() -> None:
    async def once(endpoint: Endpoint, *, cancel: bool = False) -> None:
        async with talos.maintenance(endpoint, pin=None, timeout_seconds=SECONDS) as it:
            if not cancel:
                await it.identity()

    async with node(CONTEXT) as box:
        for _ in range(5):
            await once(box.endpoint)
        gc.collect()
        files, tasks = open_files(), len(asyncio.all_tasks())
        for number in range(200):
            await once(box.endpoint, cancel=number % 4 == 0)
        async with asyncio.timeout(SECONDS):  # the server's ends close a moment later
            while open_files() > files + 2 or len(asyncio.all_tasks()) > tasks:
                gc.collect()
                await asyncio.sleep(0.02)
    assert not any(Path(tunnel._folder()).iterdir())


async def test_a_cancelled_opening_and_a_cancelled_call_leave_nothing_behind() -> None:
    async def never(request: Any, context: Any) -> None:
        await asyncio.sleep(60)

    async with node(CONTEXT, Api(get=never)) as box:
        before = len(asyncio.all_tasks())
        for wait in (0, 0.001, 0.003, 0.01, 0.05, 0.2):
            task = asyncio.ensure_future(identity(box.endpoint))
            await asyncio.sleep(wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(SECONDS):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.02)
    assert not any(Path(tunnel._folder()).iterdir())


async def test_the_socket_is_private_and_gone_once_it_is_used() -> None:
    async with node(CONTEXT) as box, talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it:
        assert stat.S_IMODE(Path(tunnel._folder()).stat().st_mode) == 0o700
        assert len(list(Path(tunnel._folder()).iterdir())) == 1
        await it.identity()
        assert not any(Path(tunnel._folder()).iterdir())


async def test_proxy_variables_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with node(CONTEXT) as box:
        assert (await identity(box.endpoint)).uuid


def test_a_link_spec_survives_fields_that_we_do_not_know() -> None:
    encoded = link("02:00:00:00:00:01").SerializeToString() + b"\xda\x01\x02\x08\x05"  # field 27: a bridge
    assert specs_pb2.LinkStatus.FromString(encoded).permanent_addr == b"\x02\0\0\0\0\1"
