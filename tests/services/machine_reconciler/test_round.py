"""A round from what answers to what is written and published, and in which order."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from libs import kube, talos
from libs.events import EndpointObserved, MachineReadinessChanged, SeenAddress, subjects
from libs.identity import Identity
from libs.machine import Source, TalosMachineStatus, condition
from services.machine_reconciler.memory import Interrupted
from services.machine_reconciler.steps import Again
from tests.services.machine_reconciler.facts_of import ELSEWHERE, IDENTITY, machine
from tests.services.machine_reconciler.fakes import MOMENT, FakeNode, node
from tests.services.machine_reconciler.world import HERE, OTHER, PIN, World, in_maintenance, running

LEAF = "L" * 43 + "="


@pytest.fixture
async def world() -> World:
    """A converged machine with a hostname, whose Node lists where it is."""
    world = World(start=machine(sent_to=PIN, hostname="one"))
    world.net.nodes[HERE] = running()
    world.put_node(node("one", HERE, uuid=IDENTITY.uuid))
    assert await world.round() == Again.REPROBE
    assert world.reason == "Converged"
    world.outbox.sent.clear()
    world.api.writes.clear()
    return world


def power_cycle(world: World, *addresses: str) -> None:
    """The node is elsewhere; its Kubernetes Node does not know yet."""
    here = world.net.nodes.pop(HERE)
    for address in addresses:
        world.net.nodes[address] = here


async def test_a_read_writes_what_it_tells_and_then_nothing_while_nothing_changes(world: World) -> None:
    assert world.api.machine is not None
    status = world.api.machine.status
    assert (status.node_name, status.node_addresses, status.last_read) == ("one", (HERE,), MOMENT)
    assert await world.round() == Again.REPROBE
    assert world.api.writes == []
    assert world.outbox.sent == []


async def test_a_moved_node_is_proven_and_published_after_ready_says_false(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.put_node(node("one", ELSEWHERE))
    at_put: list[str] = []
    world.outbox.when_put = lambda: at_put.append(world.reason)

    assert await world.round() == Again.BACKOFF

    [proof] = world.outbox.of(EndpointObserved)
    assert proof.source == Source.READ
    assert proof.addresses == (SeenAddress(address=ELSEWHERE, fingerprint=LEAF),)
    assert (proof.machine.name, proof.machine.uid) == ("one", "u-1")
    assert at_put[-1] == "CurrentConfigUnavailable"
    assert len(world.api.writes) == 1, "one more write would make the status writer try twice"

    assert world.api.machine is not None
    world.api.replace(status=_observed(world.api.machine.status, ELSEWHERE))
    world.sync()
    assert await world.round() == Again.REPROBE
    assert world.reason == "Converged"
    assert [e.reason for e in world.outbox.of(MachineReadinessChanged)] == ["CurrentConfigUnavailable", "Converged"]


async def test_ready_says_false_before_the_machine_is_hunted(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.put_node(node("one", ELSEWHERE))
    world.net.nodes[ELSEWHERE].delay_seconds = 60
    hunting = asyncio.ensure_future(world.round())
    async with asyncio.timeout(2):
        while ELSEWHERE not in world.net.dialled:
            await asyncio.sleep(0)
    assert world.reason == "CurrentConfigUnavailable"
    hunting.cancel()
    await asyncio.gather(hunting, return_exceptions=True)


async def test_a_proof_that_is_not_recorded_is_said_and_published_anew(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.put_node(node("one", ELSEWHERE))
    await world.round()
    await world.round()
    assert "was not recorded" in world.message
    ids = {message_id for _, event, message_id in world.outbox.sent if isinstance(event, EndpointObserved)}
    assert len(ids) == 2


async def test_without_a_proof_what_the_node_lists_now_is_published(world: World) -> None:
    power_cycle(world)
    world.put_node(node("one", ELSEWHERE, uuid=IDENTITY.uuid))
    await world.round()
    [lookup] = world.outbox.of(EndpointObserved)
    assert lookup.source == Source.LOOKUP
    assert [seen.address for seen in lookup.addresses] == [ELSEWHERE]
    assert (lookup.node.name, lookup.node.system_uuid, lookup.machine.uid) == ("one", IDENTITY.uuid, "u-1")
    await world.round()
    ids = [message_id for _, event, message_id in world.outbox.sent if isinstance(event, EndpointObserved)]
    assert len(set(ids)) == 2, "each failed read is an observation of its own"


@pytest.mark.parametrize("listed", [pytest.param((HERE,), id="where it is dialled"), pytest.param((), id="nothing")])
async def test_a_node_that_tells_nothing_new_is_not_published(world: World, listed: tuple[str, ...]) -> None:
    power_cycle(world)
    world.put_node(node("one", *listed))
    await world.round()
    assert world.outbox.of(EndpointObserved) == []
    assert world.reason == "CurrentConfigUnavailable"


async def test_a_machine_without_hostname_is_looked_up_by_the_name_it_told(world: World) -> None:
    world.api.edit(hostname="")
    world.sync()
    power_cycle(world)
    world.put_node(node("one", ELSEWHERE))
    await world.round()
    assert [e.source for e in world.outbox.of(EndpointObserved)] == [Source.LOOKUP]


async def test_a_node_cluster_that_is_away_does_not_fail_the_round(world: World) -> None:
    power_cycle(world)
    world.api.nodes.clear()
    assert await world.round() == Again.BACKOFF
    assert world.outbox.of(EndpointObserved) == []


async def test_another_node_at_the_old_address_is_told_apart_and_the_machine_found(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.net.nodes[HERE] = FakeNode(fingerprint=OTHER, identity=Identity(uuid="9" * 8, serial_number="S9"))
    world.put_node(node("one", ELSEWHERE))
    await world.round()
    assert world.reason == "IdentityMismatch"
    assert [e.source for e in world.outbox.of(EndpointObserved)] == [Source.READ]


async def test_a_twin_at_the_old_address_gets_nothing_and_is_shown(world: World) -> None:
    power_cycle(world)
    world.net.nodes[HERE] = in_maintenance(OTHER)
    await world.round()
    assert world.reason == "ReappearedInMaintenance"
    assert OTHER in world.message
    assert world.received() == []


async def test_an_observed_address_that_went_stale_leads_back_to_the_declared_one(world: World) -> None:
    assert world.api.machine is not None
    world.api.replace(status=_observed(world.api.machine.status, ELSEWHERE))
    world.sync()
    await world.round()
    [proof] = world.outbox.of(EndpointObserved)
    assert [seen.address for seen in proof.addresses] == [HERE]


async def test_an_earlier_address_is_asked_too(world: World) -> None:
    world.memory.remember("10.0.0.77")
    power_cycle(world, "10.0.0.77")
    await world.round()
    [proof] = world.outbox.of(EndpointObserved)
    assert [seen.address for seen in proof.addresses] == ["10.0.0.77"]


async def test_refused_credentials_start_no_hunt(world: World) -> None:
    world.net.nodes[HERE].error = talos.CredentialsRejected("our certificate has expired")
    world.put_node(node("one", ELSEWHERE))
    world.net.dialled.clear()
    await world.round()
    assert world.reason == "CredentialsRejected"
    assert world.net.dialled == [HERE]
    assert world.outbox.of(EndpointObserved) == []


async def test_the_node_is_read_while_the_api_server_is_away(world: World) -> None:
    world.api.error = kube.Unavailable("away")
    world.net.dialled.clear()
    assert await world.round() == Again.REPROBE
    assert world.net.dialled == [HERE]


async def test_ready_false_that_could_not_be_written_publishes_nothing(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.put_node(node("one", ELSEWHERE))
    world.api.error = kube.Unavailable("away")
    with pytest.raises(kube.Unavailable):
        await world.round()
    assert world.outbox.sent == []


async def test_news_breaks_off_a_read_of_a_silent_address(world: World) -> None:
    world.net.nodes[HERE].delay_seconds = 60
    asyncio.get_running_loop().call_later(0.02, world.memory.tell, "the Node is elsewhere")
    with pytest.raises(Interrupted):
        await world.round()


async def test_in_a_hurry_a_silent_old_address_does_not_delay_the_proof(world: World) -> None:
    power_cycle(world, ELSEWHERE)
    world.net.nodes[HERE] = running()
    world.net.nodes[HERE].delay_seconds = 60
    world.put_node(node("one", ELSEWHERE))
    world.memory.tell("the Node is elsewhere")
    async with asyncio.timeout(2):
        await world.round()
    assert [e.source for e in world.outbox.of(EndpointObserved)] == [Source.READ]
    assert world.reason == "CurrentConfigUnavailable"


async def test_a_node_with_several_addresses_keeps_the_one_that_answers(world: World) -> None:
    world.net.nodes[ELSEWHERE] = running()
    world.put_node(node("one", ELSEWHERE))
    world.memory.tell("the Node lists another")
    assert await world.round() == Again.REPROBE
    assert world.outbox.of(EndpointObserved) == []
    assert world.reason == "Converged"


async def test_pictures_are_shown_for_the_operator_to_pin() -> None:
    world = World(start=machine(approved=False, maintenance_fingerprint=""))
    world.net.nodes[HERE] = in_maintenance(PIN)
    _see(world, HERE, PIN)
    assert await world.round() == Again.REPROBE
    assert world.api.machine is not None
    [seen] = world.api.machine.status.maintenance
    assert (seen.fingerprint, seen.addresses, seen.site) == (PIN, (HERE,), "here")
    assert world.reason == "AwaitingApproval"
    assert PIN in world.message


async def test_a_twin_sets_the_conflict_and_its_end_clears_it(world: World) -> None:
    _see(world, ELSEWHERE, OTHER)
    await world.round()
    assert world.api.machine is not None
    twins = condition(world.api.machine, "IdentityConflict")
    assert twins is not None
    assert twins.status == "True"
    assert HERE in twins.message
    assert ELSEWHERE in twins.message
    assert world.reason == "Converged"
    assert ("Warning", "IdentityConflict") in world.told
    world.pictures.put(subjects.observed_discovery("here", "id"), _picture(), MOMENT)
    await world.round()
    twins = condition(world.api.machine, "IdentityConflict")
    assert twins is not None
    assert twins.status == "False"


def _picture(*seen: tuple[str, str]) -> EndpointObserved:
    addresses = tuple(SeenAddress(address=address, fingerprint=fingerprint) for address, fingerprint in seen)
    return EndpointObserved(source=Source.DISCOVERY, addresses=addresses, identity=IDENTITY, site="here")


def _see(world: World, address: str, fingerprint: str) -> None:
    world.pictures.put(subjects.observed_discovery("here", "id"), _picture((address, fingerprint)), MOMENT)


def _observed(status: TalosMachineStatus, address: str) -> TalosMachineStatus:
    return msgspec.structs.replace(status, observed_endpoint=address, observed_endpoint_for=HERE)


async def test_people_are_told_of_each_transition_once(world: World) -> None:
    power_cycle(world)
    await world.round()
    await world.round()
    assert world.told == [("Normal", "Converged"), ("Warning", "CurrentConfigUnavailable")]


async def test_people_are_told_once_of_a_box_in_maintenance_mode_that_shows_a_sent_identity(world: World) -> None:
    await world.round()
    _see(world, ELSEWHERE, OTHER)
    await world.round()
    await world.round()
    assert world.told.count(("Warning", "SeenInMaintenance")) == 1
    _see(world, ELSEWHERE, PIN)
    await world.round()
    assert world.told.count(("Warning", "SeenInMaintenance")) == 1, "its own certificate, from before it was sent"
