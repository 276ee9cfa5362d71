"""Configured nodes: the chain is verified in the handshake, the identity before anything else is possible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from libs import talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from libs.talos.pb import specs_pb2, state_pb2
from tests.libs.talos import pki
from tests.libs.talos.fake_node import MAC, UUID, Api, FakeNode, node, resource

SECONDS = 20.0
CLUSTER = pki.authority()
OURS = pki.client(CLUSTER)
CREDENTIALS = talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, OURS))


def connect(
    box: FakeNode,
    *,
    credentials: talos.Credentials = CREDENTIALS,
    proves: Callable[[Identity], bool] = lambda seen: seen.uuid == UUID,
) -> AbstractAsyncContextManager[talos.ConfiguredNode]:
    return talos.configured(box.endpoint, credentials, proves=proves, timeout_seconds=SECONDS)


def serving(
    leaf: pki.Issued | None = None, api: Api | None = None, clients: pki.Issued = CLUSTER
) -> AbstractAsyncContextManager[FakeNode]:
    leaf = leaf or pki.issue(CLUSTER)
    return node(leaf.server_context(clients=clients), api)


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
@pytest.mark.parametrize("ours", ["ed25519", "ec", "rsa"])
async def test_a_node_is_read_whatever_the_kinds_of_keys(kind: str, ours: str) -> None:
    cluster = pki.authority(kind)
    credentials = talos.parse_talosconfig(pki.talosconfig(cluster.pem, pki.client(cluster, kind=ours)))
    data = b"\xef\xbb\xbf# comment\r\n---\nversion: v1alpha1\nmachine: {}"
    async with (
        serving(pki.issue(cluster, kind=kind), Api(configuration=data), clients=cluster) as box,
        connect(box, credentials=credentials) as it,
    ):
        assert it.identity.uuid == UUID
        assert await it.machine_configuration() == data
        assert await it.nodename() == "node-1"
        assert await it.version() == "v1.13.9"


@pytest.mark.parametrize("order", [1, -1])
async def test_any_authority_of_the_talosconfig_proves_a_node(order: int) -> None:
    """As while the cluster's authority is being changed; both have the same name."""
    old, new = pki.authority(), pki.authority()
    both = b"".join([old.pem, new.pem][::order])
    credentials = talos.parse_talosconfig(pki.talosconfig(both, pki.client(old)))
    for signer in (old, new):
        async with serving(pki.issue(signer), clients=old) as box, connect(box, credentials=credentials) as it:
            assert it.identity.uuid == UUID


async def test_a_node_of_another_cluster_is_never_shown_our_certificate() -> None:
    other = pki.authority()
    async with serving(pki.issue(other), clients=CLUSTER) as box:
        with pytest.raises(talos.WrongIdentity, match="not of the talosconfig's cluster") as caught:
            async with connect(box):
                pytest.fail("opened")
        assert not any(box.received)
        assert box.handshakes == 0  # it demands a certificate, and was shown none
    assert caught.value.seen is None
    assert str(box.endpoint) in str(caught.value)


async def test_another_node_of_the_cluster_is_told_apart_before_anything_else() -> None:
    asked = []

    async def get(request: Any, context: Any) -> Any:
        asked.append(request.type)
        return state_pb2.GetResponse(resource=resource(specs_pb2.SystemInformation(uuid="other")))

    async with serving(api=Api(get=get)) as box:
        with pytest.raises(talos.WrongIdentity) as caught:
            async with connect(box):
                pytest.fail("opened")
    assert caught.value.seen == Identity(uuid="other", mac_addresses=(MAC,))
    assert asked == ["SystemInformations.hardware.talos.dev"]


async def test_maintenance_mode_is_told_apart() -> None:
    leaf = pki.issue(pki.authority(organization=None), pki.MAINTENANCE)
    async with node(leaf.server_context()) as box:
        with pytest.raises(talos.NotConfigured) as caught:
            async with connect(box):
                pytest.fail("opened")
        assert not any(box.received)
    assert caught.value.leaf.fingerprint == talos.fingerprint(leaf.der)


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        pytest.param({"lifetime": timedelta(hours=-1)}, "has expired", id="expired"),
        pytest.param({"starts_in": timedelta(hours=1)}, "not valid yet", id="not yet valid"),
    ],
)
async def test_a_clock_that_is_wrong_is_named(leaf: Any, text: str) -> None:
    async with serving(pki.issue(CLUSTER, **leaf)) as box:
        with pytest.raises(talos.Unreachable, match=text):
            async with connect(box):
                pytest.fail("opened")
        assert not any(box.received)


async def test_a_client_certificate_does_not_make_a_node() -> None:
    leaf = pki.issue(CLUSTER, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    async with serving(leaf) as box:
        with pytest.raises(talos.WrongIdentity):
            async with connect(box):
                pytest.fail("opened")


@pytest.mark.parametrize("attempts", [50])
async def test_a_refused_client_certificate_is_named_every_time(attempts: int) -> None:
    """The alert comes once and after our handshake is over; a write error must not hide it."""
    stranger = pki.authority()
    credentials = talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, pki.client(stranger)))
    async with serving() as box:
        for _ in range(attempts):
            with pytest.raises(talos.CredentialsRejected, match="authority"):
                async with connect(box, credentials=credentials):
                    pytest.fail("opened")


async def test_a_certificate_that_expired_by_the_nodes_clock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = pki.client(CLUSTER, lifetime=timedelta(hours=-1))
    credentials = talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, ours))
    async with serving() as box:
        with pytest.raises(talos.CredentialsRejected, match=r"expired at .* UTC"):
            async with connect(box, credentials=credentials):
                pytest.fail("opened")
        monkeypatch.setattr(type(credentials), "expired", lambda self: False)
        with pytest.raises(talos.CredentialsRejected, match="node's clock"):
            async with connect(box, credentials=credentials):
                pytest.fail("opened")


async def test_an_expired_certificate_is_not_even_dialled_with() -> None:
    ours = pki.client(CLUSTER, lifetime=timedelta(seconds=-1))
    credentials = talos.parse_talosconfig(pki.talosconfig(CLUSTER.pem, ours))
    with pytest.raises(talos.CredentialsRejected):
        async with talos.configured(
            Endpoint("192.0.2.1"), credentials, proves=lambda seen: True, timeout_seconds=SECONDS
        ):
            pytest.fail("opened")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, talos.NotAllowed),
        (grpc.StatusCode.UNAUTHENTICATED, talos.CredentialsRejected),
        (grpc.StatusCode.NOT_FOUND, talos.StrangeAnswer),
        (grpc.StatusCode.UNIMPLEMENTED, talos.StrangeAnswer),
        (grpc.StatusCode.UNAVAILABLE, talos.Unreachable),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, talos.StrangeAnswer),
    ],
)
async def test_a_failed_read_has_its_own_error(code: grpc.StatusCode, error: type[talos.TalosError]) -> None:
    async def get(request: Any, context: Any) -> Any:
        if request.type.startswith("SystemInformations"):
            return state_pb2.GetResponse(resource=resource(specs_pb2.SystemInformation(uuid=UUID)))
        return await context.abort(code, "not authorized")

    async with serving(api=Api(get=get)) as box, connect(box) as it:
        with pytest.raises(error, match=str(box.endpoint)):
            await it.machine_configuration()


async def test_what_the_caller_raises_comes_out_as_it_is() -> None:
    async with serving() as box:
        with pytest.raises(KeyError):
            async with connect(box):
                raise KeyError
        with pytest.raises(ZeroDivisionError):
            async with connect(box, proves=lambda seen: 1 // 0 == 0):
                pytest.fail("opened")


async def test_a_node_that_goes_away_under_a_call_is_unreachable() -> None:
    gone = asyncio.Event()

    async def version(request: Any, context: Any) -> None:
        gone.set()
        await asyncio.sleep(60)

    async with asyncio.TaskGroup() as group, serving(api=Api(version=version)) as box:

        async def ask() -> None:
            async with connect(box) as it:
                with pytest.raises(talos.Unreachable):
                    await it.version()
                with pytest.raises(talos.Unreachable):
                    await it.version()

        group.create_task(ask())
        await gone.wait()
