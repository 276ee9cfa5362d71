"""The tunnel knows why a connection ended, whatever gRPC noticed first, and never mixes two nodes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack

import grpc
import pytest

from libs import talos
from libs.endpoint import Endpoint
from libs.talos.tls import TlsStream, client_context
from libs.talos.tunnel import open_tunnel
from tests.libs.talos import pki
from tests.libs.talos.fake_node import Api, node, tcp_server, tls_server_of

SECONDS = 20.0
BOOT = pki.authority(organization=None)


class BrokenStream(TlsStream):
    """Takes nothing, and has something to say a moment later: a node that hung up after an alert."""

    def __init__(self, last: Exception) -> None:
        self.last = last

    async def write(self, data: bytes) -> None:
        raise BrokenPipeError

    async def read(self) -> bytes:
        await asyncio.sleep(0.2)
        raise self.last


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("last", "error", "text"),
    [
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), talos.CredentialsRejected, "asks for one"),
        (alert("TLSV1_ALERT_UNKNOWN_CA"), talos.CredentialsRejected, "authority"),
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), talos.CredentialsRejected, "node's clock"),
        (alert("SSLV3_ALERT_BAD_CERTIFICATE"), talos.CredentialsRejected, "not one for clients"),
        (alert("TLSV1_ALERT_INTERNAL_ERROR"), talos.Unreachable, "INTERNAL_ERROR"),
        (ConnectionResetError(104, "Connection reset by peer"), talos.Unreachable, "reset by peer"),
    ],
)
async def test_a_failed_write_does_not_hide_what_the_node_said(
    last: Exception, error: type[talos.TalosError], text: str
) -> None:
    async with AsyncExitStack() as stack:
        tunnel = await open_tunnel(
            stack, BrokenStream(last), Endpoint("192.0.2.1"), answer_bytes_max=1024, with_certificate=True
        )
        with pytest.raises(grpc.aio.AioRpcError):
            await tunnel.channel.unary_unary("/x.Y/Z", bytes, bytes)(b"", timeout=SECONDS)
        cause = await tunnel.cause(wait=True)
    assert type(cause) is error
    assert text in str(cause)
    assert "192.0.2.1:50000" in str(cause)


async def test_what_was_said_is_read_even_if_nothing_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(stream: TlsStream) -> None:
        await stream.write(b"last words")
        await stream.read()

    async def broken() -> None:
        raise BrokenPipeError

    context = pki.issue(BOOT, pki.MAINTENANCE).server_context()
    async with tcp_server(tls_server_of(context, talk)) as endpoint:
        sock = socket.create_connection((endpoint.host, endpoint.port))
        sock.setblocking(False)
        stream = TlsStream(sock, client_context())
        try:
            await stream.handshake()
            with monkeypatch.context() as patch:
                patch.setattr(stream, "_send", broken)
                assert await stream.read() == b"last words"
        finally:
            stream.close()


async def test_many_nodes_at_once_are_never_mixed() -> None:
    leaves = [pki.issue(BOOT, pki.MAINTENANCE) for _ in range(3)]

    async def check(endpoint: Endpoint, number: int) -> None:
        pin = talos.fingerprint(leaves[number].der)
        async with talos.maintenance(endpoint, pin=pin, timeout_seconds=SECONDS) as it:
            for _ in range(3):
                assert (await it.identity()).uuid == str(number)

    async with AsyncExitStack() as stack:
        boxes = [
            await stack.enter_async_context(node(leaf.server_context(), Api(uuid=str(number))))
            for number, leaf in enumerate(leaves)
        ]
        async with asyncio.TaskGroup() as group:
            for turn in range(30):
                group.create_task(check(boxes[turn % 3].endpoint, turn % 3))
