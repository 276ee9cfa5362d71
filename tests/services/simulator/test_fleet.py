"""Whole nodes over the real TLS: what our own client sees of them while they are configured, moved and wiped."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from cryptography import x509

from libs import talos
from libs.endpoint import Endpoint
from libs.talos import serve
from services.simulator.box import AddressTakenError, Box
from services.simulator.fleet import Fleet, UnknownNodeError
from services.simulator.node import WrongStateError
from services.simulator.spec import FleetError, HostileKind, HostileSpec
from tests.services.simulator.sites import SECONDS, Cluster, endpoint_of, identity_of, new_subnet, node

CLUSTER = Cluster()


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with Fleet() as fleet:
        yield fleet


@pytest.fixture
def subnet() -> str:
    return new_subnet()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


async def send(box: Box, data: bytes) -> talos.Applied:
    async with talos.maintenance(endpoint_of(box), pin=box.fingerprint, timeout_seconds=SECONDS) as there:
        return await there.apply_configuration(data)


async def read(box: Box, *, at: Endpoint | None = None) -> bytes:
    async with talos.configured(
        at or endpoint_of(box),
        CLUSTER.credentials(),
        proves=lambda seen: seen == identity_of(box),
        timeout_seconds=SECONDS,
    ) as there:
        return await there.machine_configuration()


async def running(fleet: Fleet, name: str, address: str, **more: object) -> Box:
    text = CLUSTER.configuration(hostname=name).decode()
    return await fleet.add(node(name, address, configuration_text=text, **more))


async def test_in_maintenance_it_says_who_it_is_and_shows_the_leaf_of_its_console(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1", macs=("b4:96:91:00:00:01", "b4:96:91:00:00:02")))

    async with talos.maintenance(endpoint_of(box), pin=None, timeout_seconds=SECONDS) as there:
        assert there.leaf.maintenance
        assert there.leaf.fingerprint == box.fingerprint
        assert await there.identity() == identity_of(box)


async def test_a_configuration_is_taken_and_comes_back_byte_for_byte(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    data = b"# a comment\r\n" + CLUSTER.configuration(hostname="cp-1").rstrip()
    maintenance = box.fingerprint

    applied = await send(box, data)

    assert applied.mode == "NO_REBOOT"
    await until(lambda: box.answers and box.node.mode == "configured")
    assert await read(box) == data
    leaf = await talos.look(endpoint_of(box), SECONDS)
    assert (leaf.common_name, leaf.maintenance) == ("cp-1", False)
    assert leaf.fingerprint not in ("", maintenance)
    state = box.state()
    assert state.configurations_received.sha256 == (hashlib.sha256(data).hexdigest(),)
    assert state.last_roles == (serve.Role.ADMIN,)


async def test_a_power_cycle_is_another_boot_at_another_address(fleet: Fleet, subnet: str) -> None:
    box = await running(fleet, "cp-1", f"{subnet}.1")
    before = box.state()

    after = await box.power_cycle([f"{subnet}.2"])

    assert after.boot_id != before.boot_id
    assert after.fingerprint not in ("", before.fingerprint)
    with pytest.raises(talos.Unreachable):
        await talos.look(Endpoint(f"{subnet}.1"), SECONDS)
    assert await read(box)


async def test_a_move_changes_the_leaf_and_not_the_boot(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    before = box.state()

    after = await box.move([f"{subnet}.2", f"{subnet}.3"])

    assert after.boot_id == before.boot_id
    for last in (2, 3):
        leaf = await talos.look(Endpoint(f"{subnet}.{last}"), SECONDS)
        assert leaf.fingerprint == after.fingerprint != before.fingerprint
    with pytest.raises(talos.Unreachable):
        await talos.look(Endpoint(f"{subnet}.1"), SECONDS)


async def test_a_connection_hangs_when_the_power_is_cut_and_is_reset_by_the_next_boot(
    fleet: Fleet, subnet: str
) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    reader, writer = await asyncio.open_connection(f"{subnet}.1", 50000)
    await until(lambda: box.state().connections.open == 1)

    await box.power_off()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await reader.read()
    await box.power_on()
    with pytest.raises(ConnectionResetError):
        async with asyncio.timeout(SECONDS):
            await reader.read()
    writer.close()


async def test_an_authority_lives_for_one_boot(fleet: Fleet, subnet: str) -> None:
    """It is never shown, but each leaf names the key that signed it."""

    async def signer() -> bytes:
        certificate = x509.load_der_x509_certificate((await talos.look(endpoint_of(box), SECONDS)).der)
        named = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
        assert named
        return named

    box = await fleet.add(node("box", f"{subnet}.1"))
    first = await signer()
    await box.move([f"{subnet}.2"])
    assert await signer() == first
    await box.power_cycle()
    assert await signer() != first


async def test_a_wiped_node_wants_its_configuration_again(fleet: Fleet, subnet: str) -> None:
    box = await running(fleet, "cp-1", f"{subnet}.1")
    await box.wipe([f"{subnet}.2"])

    async with talos.maintenance(endpoint_of(box), pin=box.fingerprint, timeout_seconds=SECONDS) as there:
        assert await there.identity() == identity_of(box)
    with pytest.raises(talos.NotConfigured):
        await read(box)


async def test_a_worker_answers_only_once_a_control_plane_of_its_cluster_signs(fleet: Fleet, subnet: str) -> None:
    worker = await fleet.add(
        node("w-1", f"{subnet}.1", configuration_text=CLUSTER.configuration("worker", hostname="w-1").decode())
    )
    assert not worker.answers
    assert "control plane" in worker.state().waiting_for
    stranger = Cluster().configuration(hostname="other").decode()
    await fleet.add(node("other", f"{subnet}.3", configuration_text=stranger))
    assert not worker.answers

    control_plane = await running(fleet, "cp-1", f"{subnet}.2")

    await until(lambda: worker.answers)
    assert worker.state().waiting_for == ""
    assert await read(worker)
    await control_plane.power_off()
    kept = worker.fingerprint
    await worker.move([f"{subnet}.4"])
    assert worker.fingerprint == kept, "nobody signs: the leaf stays, and answers at the new address"
    assert await read(worker)
    await worker.power_cycle()
    assert not worker.answers


async def test_the_fleets_own_authority_signs_for_workers_too(subnet: str) -> None:
    async with Fleet(cluster_ca=CLUSTER.authority) as fleet:
        text = CLUSTER.configuration("worker").decode()
        worker = await fleet.add(node("w-1", f"{subnet}.1", configuration_text=text))
        assert await read(worker)


async def test_one_address_is_held_by_one_box_at_a_time(fleet: Fleet, subnet: str) -> None:
    first = await fleet.add(node("first", f"{subnet}.1"))
    second = await fleet.add(node("second", f"{subnet}.2"))
    fingerprints = first.fingerprint, second.fingerprint

    for refused in (second.move, second.power_cycle, second.wipe):
        with pytest.raises(AddressTakenError, match="held by first"):
            await refused([f"{subnet}.1"])
    with pytest.raises(AddressTakenError, match="held by first"):
        await fleet.add(node("third", f"{subnet}.1"))
    assert "third" not in fleet.nodes
    assert (first.fingerprint, second.fingerprint) == fingerprints, "nothing was cut or changed"

    await first.power_off()
    await second.move([f"{subnet}.1"])
    assert (await talos.look(Endpoint(f"{subnet}.1"), SECONDS)).fingerprint == second.fingerprint


async def test_an_address_that_another_process_holds_switches_the_box_off(fleet: Fleet, subnet: str) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), f"{subnet}.9", 50000)
    async with server:
        with pytest.raises(AddressTakenError, match="cannot listen"):
            await fleet.add(node("box", f"{subnet}.9"))
    assert not fleet.nodes
    assert (await fleet.add(node("box", f"{subnet}.9"))).answers, "free again"


async def test_two_boxes_swap_their_addresses(fleet: Fleet, subnet: str) -> None:
    one, two = await running(fleet, "one", f"{subnet}.1"), await running(fleet, "two", f"{subnet}.2")
    await asyncio.gather(one.power_off(), two.power_off())

    await asyncio.gather(one.power_on([f"{subnet}.2"]), two.power_on([f"{subnet}.1"]))

    assert await read(one, at=Endpoint(f"{subnet}.2"))
    assert await read(two, at=Endpoint(f"{subnet}.1"))


async def test_it_refuses_as_often_as_it_was_told_and_counts_none_of_it(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    await box.trouble(refuse_apply={"code": "FAILED_PRECONDITION", "message": "busy", "times": 1})

    with pytest.raises(talos.Rejected, match="FAILED_PRECONDITION"):
        await send(box, CLUSTER.configuration())

    assert box.state().configurations_received.count == 0
    assert box.state().troubles.refuse_apply is None
    await send(box, CLUSTER.configuration())
    assert box.state().configurations_received.count == 1


async def test_a_configuration_that_makes_no_sense_is_refused(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    with pytest.raises(talos.Rejected, match="INVALID_ARGUMENT"):
        await send(box, b"{")
    assert box.state().configurations_received.count == 0


async def test_a_held_configuration_is_lost_with_the_client_that_sent_it(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    await box.trouble(hold_apply=True)
    sending = asyncio.ensure_future(send(box, CLUSTER.configuration()))
    await until(lambda: box.state().connections.total == 1)
    await asyncio.sleep(0.1)  # long enough for the request to arrive; what must not happen has no end to wait for
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await until(lambda: box.state().connections.open == 0)

    await box.trouble(hold_apply=False)

    assert box.state().configurations_received.count == 0
    held = asyncio.ensure_future(send(box, CLUSTER.configuration()))
    assert (await held).mode == "NO_REBOOT"


async def test_a_silent_node_says_nothing_and_one_that_drops_nothing_more(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    await box.trouble(silent=True)
    with pytest.raises(talos.Unreachable):
        await talos.look(endpoint_of(box), 0.3)

    await box.trouble(silent=False, drop_after_handshake=True)
    with pytest.raises(talos.TalosError):
        async with talos.maintenance(endpoint_of(box), pin=None, timeout_seconds=SECONDS) as there:
            await there.identity()
    await box.trouble(drop_after_handshake=None)
    assert await talos.look(endpoint_of(box), SECONDS)


async def test_the_nodes_clock_is_in_its_leaf(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1", power="off"))
    await box.trouble(clock_offset_seconds=-400 * 86400)
    await box.power_on()
    leaf = await talos.look(endpoint_of(box), SECONDS)
    assert leaf.not_after.timestamp() < time.time() - 398 * 86400


async def test_a_node_is_taken_away_and_its_name_is_free(fleet: Fleet, subnet: str) -> None:
    await fleet.add(node("box", f"{subnet}.1"))
    await fleet.remove("box")
    with pytest.raises(UnknownNodeError, match="no node 'box'"):
        fleet["box"]
    assert (await fleet.add(node("box", f"{subnet}.1"))).answers


async def test_whoever_waits_for_a_node_that_is_taken_away_hears_of_it(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    waiting = asyncio.ensure_future(box.power_cycle())
    await asyncio.sleep(0)
    await fleet.remove("box")
    for asked in (waiting, box.power_on()):
        with pytest.raises(WrongStateError, match="taken away"):
            async with asyncio.timeout(SECONDS):
                await asked


async def test_what_makes_no_sense_is_refused(fleet: Fleet, subnet: str) -> None:
    box = await fleet.add(node("box", f"{subnet}.1"))
    with pytest.raises(FleetError, match=r"box: '10\.0\.0\.300'"):
        await box.power_cycle(["10.0.0.300"])
    with pytest.raises(FleetError, match="wants addresses"):
        await box.move([])
    with pytest.raises(FleetError, match="unknown field"):
        await box.trouble(rude=True)
    with pytest.raises(WrongStateError, match="on already"):
        await box.power_on()
    assert box.answers


@pytest.mark.parametrize("kind", list(HostileKind))
async def test_a_hostile_box_never_gives_an_identity(fleet: Fleet, subnet: str, kind: HostileKind) -> None:
    await fleet.add_hostile(HostileSpec(address=f"{subnet}.66", kind=kind))
    with pytest.raises(talos.TalosError):
        async with talos.maintenance(Endpoint(f"{subnet}.66"), pin=None, timeout_seconds=0.7) as there:
            await there.identity()
    with pytest.raises(AddressTakenError, match=f"something hostile \\({kind}\\)"):
        await fleet.add(node("box", f"{subnet}.66"))
    await fleet.remove_hostile(f"{subnet}.66")
    assert (await fleet.add(node("box", f"{subnet}.66"))).answers


async def test_sixty_nodes_run_side_by_side_and_stop_quickly(subnet: str) -> None:
    async with Fleet() as fleet:
        boxes = await asyncio.gather(*(fleet.add(node(f"n-{n}", f"{subnet}.{n}")) for n in range(1, 61)))
        reads: list[Awaitable[talos.Leaf]] = [talos.look(endpoint_of(box), 20) for box in boxes]
        leaves = await asyncio.gather(*reads)
        assert [leaf.fingerprint for leaf in leaves] == [box.fingerprint for box in boxes]
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 5
