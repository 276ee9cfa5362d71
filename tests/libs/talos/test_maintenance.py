"""Boxes in maintenance mode: the pin decides before a byte is sent, and what they say is bounded."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from typing import Any

import grpc
import pytest

from libs import talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from libs.talos.pb import machine_pb2, specs_pb2
from tests.libs.talos import pki
from tests.libs.talos.fake_node import MAC, UUID, Api, link, node

SECONDS = 20.0
BOOT = pki.authority(organization=None)
LEAF = pki.issue(BOOT, pki.MAINTENANCE)
PIN = talos.fingerprint(LEAF.der)


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
async def test_the_identity_is_read_whatever_the_kind_of_key(kind: str) -> None:
    leaf = pki.issue(BOOT, pki.MAINTENANCE, kind=kind)
    async with (
        node(leaf.server_context()) as box,
        talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it,
    ):
        assert it.leaf.fingerprint == talos.fingerprint(leaf.der)
        assert it.leaf.maintenance
        assert await it.identity() == Identity(uuid=UUID, serial_number="SN-1", mac_addresses=(MAC,))


async def test_a_box_without_smbios_has_macs_only() -> None:
    api = Api(with_system_information=False)
    async with (
        node(LEAF.server_context(), api) as box,
        talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it,
    ):
        assert await it.identity() == Identity(mac_addresses=(MAC,))


async def test_only_permanent_addresses_of_physical_links_are_identity() -> None:
    links = [
        link("02:00:00:00:00:0b", slave_kind="bond", hardware_addr=b"\x02\0\0\0\0\xff"),
        link("02:00:00:00:00:0a"),
        link("02:00:00:00:00:01", kind="bond"),
        link("02:00:00:00:00:02", type=specs_pb2.LINK_TYPE_LOOPBACK),
        link("02:00:00:00:00:03", bus_path="usb-0000:00:14.0-6"),
        link("02:00:00:00:00:04", bus_path="1-1.4:1.0"),
        link("02:00:00:00:00:05", driver="cdc_ncm"),
        link("02:00:00:00:00:06", driver="rndis_host"),
        link("02:00:00:00:00:07", driver="r8152"),
        link("00:00:00:00:00:00", hardware_addr=b"\x02\0\0\0\0\x08"),
        link("", hardware_addr=b"\x02\0\0\0\0\x09"),
        link("02:00:00:00:00:0c", bus_path="0000:02:00.0", driver="igc"),
    ]
    async with (
        node(LEAF.server_context(), Api(links=links)) as box,
        talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it,
    ):
        seen = await it.identity()
    assert seen.mac_addresses == ("02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c")


async def test_the_configuration_arrives_byte_for_byte_in_mode_auto() -> None:
    data = b"# caf\xc3\xa9\r\nversion: v1alpha1\nmachine: {}"
    async with node(LEAF.server_context()) as box:
        async with talos.maintenance(box.endpoint, pin=PIN, timeout_seconds=SECONDS) as it:
            applied = await it.apply_configuration(data)
        assert applied == talos.Applied("NO_REBOOT", ("w",))
        [request] = box.api.applied
        assert request.data == data
        assert request.mode == machine_pb2.ApplyConfigurationRequest.AUTO


async def test_without_a_pin_nothing_can_be_sent() -> None:
    async with node(LEAF.server_context()) as box:
        async with talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it:
            with pytest.raises(ValueError, match="pin"):
                await it.apply_configuration(b"x")
        assert box.api.applied == []
        assert box.received == [] or b"ApplyConfiguration" not in box.received[0]


async def test_a_wrong_pin_shows_both_fingerprints_and_sends_not_one_byte() -> None:
    other = talos.fingerprint(pki.issue(BOOT, pki.MAINTENANCE).der)
    async with node(LEAF.server_context()) as box:
        with pytest.raises(talos.CertificateMismatch) as caught:
            async with talos.maintenance(box.endpoint, pin=other, timeout_seconds=SECONDS):
                pytest.fail("opened")
        async with asyncio.timeout(SECONDS):
            while not box.received:  # the handshake may end later on the other side
                await asyncio.sleep(0.01)
        assert box.received == [b""]
    assert (caught.value.expected, caught.value.presented.fingerprint) == (other, PIN)
    assert other in str(caught.value)
    assert PIN in str(caught.value)
    assert str(box.endpoint) in str(caught.value)


@pytest.mark.parametrize(
    "pin", ["", "!", "AAAA", PIN[:-1], PIN.lower()], ids=["empty", "no base64", "short", "cut", "lower case"]
)
async def test_text_that_is_no_fingerprint_matches_nothing(pin: str | None) -> None:
    async with node(LEAF.server_context()) as box:
        with pytest.raises(talos.CertificateMismatch):
            async with talos.maintenance(box.endpoint, pin=pin, timeout_seconds=SECONDS):
                pytest.fail("opened")


@pytest.mark.parametrize(
    "leaf",
    [
        pytest.param(pki.issue(BOOT, pki.MAINTENANCE, lifetime=timedelta(hours=-1)), id="expired"),
        pytest.param(pki.issue(BOOT, pki.MAINTENANCE, starts_in=timedelta(hours=1)), id="not yet valid"),
        pytest.param(pki.issue(BOOT, pki.MAINTENANCE, usage=None), id="no usage"),
        pytest.param(pki.issue(BOOT, ""), id="nameless"),
    ],
)
async def test_a_pin_ignores_dates_names_and_usage(leaf: pki.Issued) -> None:
    async with (
        node(leaf.server_context()) as box,
        talos.maintenance(box.endpoint, pin=talos.fingerprint(leaf.der), timeout_seconds=SECONDS) as it,
    ):
        assert (await it.identity()).uuid == UUID


async def test_a_child_of_the_pinned_leaf_is_not_the_pinned_leaf() -> None:
    pinned = pki.issue(BOOT, pki.MAINTENANCE, is_authority=True)
    child = pki.issue(pinned, pki.MAINTENANCE)
    async with node(child.server_context()) as box:
        with pytest.raises(talos.CertificateMismatch):
            async with talos.maintenance(box.endpoint, pin=talos.fingerprint(pinned.der), timeout_seconds=SECONDS):
                pytest.fail("opened")


@pytest.mark.parametrize("pin", [None, PIN], ids=["no pin", "pin"])
async def test_a_configured_node_is_told_apart(pin: str | None) -> None:
    cluster = pki.authority()
    leaf = pki.issue(cluster, "node-1")
    async with node(leaf.server_context(clients=cluster)) as box:
        with pytest.raises(talos.NotMaintenance) as caught:
            async with talos.maintenance(box.endpoint, pin=pin, timeout_seconds=SECONDS):
                pytest.fail("opened")
    assert caught.value.leaf.common_name == "node-1"
    assert caught.value.leaf.fingerprint == talos.fingerprint(leaf.der)


async def test_a_box_that_only_claims_to_be_in_maintenance_mode_is_strange() -> None:
    cluster = pki.authority()
    leaf = pki.issue(cluster, pki.MAINTENANCE)
    async with (
        node(leaf.server_context(clients=cluster)) as box,
        talos.maintenance(box.endpoint, pin=None, timeout_seconds=SECONDS) as it,
    ):
        with pytest.raises(talos.StrangeAnswer, match="client certificate"):
            await it.identity()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, talos.Rejected),
        (grpc.StatusCode.FAILED_PRECONDITION, talos.Rejected),
        (grpc.StatusCode.UNIMPLEMENTED, talos.Rejected),
        (grpc.StatusCode.PERMISSION_DENIED, talos.Rejected),
        (grpc.StatusCode.UNAVAILABLE, talos.Unreachable),
        (grpc.StatusCode.CANCELLED, talos.Unreachable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, talos.Unreachable),
        (grpc.StatusCode.INTERNAL, talos.StrangeAnswer),
    ],
)
async def test_only_a_definite_no_is_a_rejection(code: grpc.StatusCode, error: type[talos.TalosError]) -> None:
    async def refuse(request: Any, context: Any) -> None:
        await context.abort(code, "the secret is hunter2" + "x" * 5000)

    async with (
        node(LEAF.server_context(), Api(apply=refuse)) as box,
        talos.maintenance(box.endpoint, pin=PIN, timeout_seconds=SECONDS) as it,
    ):
        with pytest.raises(error) as caught:
            await it.apply_configuration(b"x")
    assert "hunter2" not in str(caught.value)
    assert str(box.endpoint) in str(caught.value)
    if isinstance(caught.value, talos.Rejected):
        assert caught.value.code == code.name
        assert caught.value.code in str(caught.value)
        assert caught.value.message.startswith("the secret")
        assert len(caught.value.message) <= 1024


async def test_two_boxes_one_after_another_at_one_address_are_never_mixed() -> None:
    """gRPC's shared pool answered for the second box over what it knew of the first."""
    first, second = LEAF, pki.issue(BOOT, pki.MAINTENANCE)
    async with node(first.server_context(), Api(uuid="first")) as box:
        endpoint = box.endpoint
        async with talos.maintenance(endpoint, pin=PIN, timeout_seconds=SECONDS) as it:
            assert (await it.identity()).uuid == "first"
    async with node(second.server_context(), Api(uuid="second"), port=endpoint.port):
        async with talos.maintenance(endpoint, pin=None, timeout_seconds=SECONDS) as it:
            assert (await it.identity()).uuid == "second"
            assert it.leaf.fingerprint != PIN
        with pytest.raises(talos.CertificateMismatch):
            async with talos.maintenance(endpoint, pin=PIN, timeout_seconds=SECONDS):
                pytest.fail("opened")


async def test_look_takes_the_leaf_and_says_nothing() -> None:
    async with node(LEAF.server_context()) as box:
        leaf = await talos.look(box.endpoint, SECONDS)
        async with asyncio.timeout(SECONDS):
            while not box.received:
                await asyncio.sleep(0.01)
        assert box.received == [b""]
    assert (leaf.der, leaf.fingerprint, leaf.common_name) == (LEAF.der, PIN, pki.MAINTENANCE)
    assert leaf.not_after == LEAF.certificate.not_valid_after_utc


async def test_look_reads_the_leaf_of_a_configured_node_too() -> None:
    cluster = pki.authority()
    leaf = pki.issue(cluster, "node-1")
    async with node(leaf.server_context(clients=cluster)) as box:
        seen = await talos.look(box.endpoint, SECONDS)
    assert (seen.common_name, seen.maintenance) == ("node-1", False)


async def test_a_name_stands_for_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        assert host == "box.example"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.7.7.7", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    async with node(LEAF.server_context()) as box:
        leaf = await talos.look(Endpoint("box.example", box.endpoint.port), SECONDS)
    assert leaf.fingerprint == PIN


async def test_ipv6() -> None:
    async with node(LEAF.server_context(), host="::1") as box:
        assert (await talos.look(box.endpoint, SECONDS)).fingerprint == PIN
