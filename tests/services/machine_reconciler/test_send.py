"""A send goes to the pinned certificate, with its note written before, or it does not happen."""

from __future__ import annotations

import msgspec
import pytest

from libs import kube, talos
from libs.events import MachineConfigurationSent, MachineReadinessChanged
from libs.identity import Identity
from libs.machine import ConfigurationSpec, SecretKey
from services.machine_reconciler.status import StartOver
from services.machine_reconciler.steps import Again
from tests.services.machine_reconciler.facts_of import ELSEWHERE, machine
from tests.services.machine_reconciler.world import CLUSTER, DESIRED, HERE, OTHER, PIN, World, in_maintenance, running

STRANGER = Identity(uuid="99999999-2222-4333-8444-555555555555", serial_number="S9")


@pytest.fixture
def world() -> World:
    world = World()
    world.net.nodes[HERE] = in_maintenance()
    return world


async def test_the_note_is_written_before_the_configuration_leaves(world: World) -> None:
    world.net.nodes[HERE].before_apply = lambda: noted.append(world.sent_to)
    noted: list[str] = []
    assert await world.round() == Again.BACKOFF
    assert noted == [PIN]
    assert world.received() == [DESIRED]
    assert world.reason == "ConfigurationSent"
    assert world.api.machine is not None
    configuration = world.api.machine.status.configuration
    assert configuration is not None
    assert configuration.hash == talos.configuration_hash(DESIRED)
    [event] = world.outbox.of(MachineConfigurationSent)
    assert (event.accepted, event.fingerprint, event.dialled) == (True, PIN, HERE)
    assert [e.reason for e in world.outbox.of(MachineReadinessChanged)] == ["ConfigurationSent"]


async def test_accepted_once_it_is_not_sent_again_to_that_boot(world: World) -> None:
    await world.round()
    await world.round()
    assert world.received() == [DESIRED]
    assert world.reason == "ConfigurationSent"


def withdraw(world: World) -> None:
    world.api.edit(approved=False)


def repin(world: World) -> None:
    world.api.edit(maintenance_fingerprint=OTHER)


def other_reference(world: World) -> None:
    world.api.edit(configuration=ConfigurationSpec(secret_ref=SecretKey(name="two", key="config")))


def move(world: World) -> None:
    world.api.edit(endpoint=ELSEWHERE)


def delete(world: World) -> None:
    world.api.machine = None


def write_by_others(world: World) -> None:
    def once() -> None:
        world.api.before_write = lambda: None
        world.api.replace()

    world.api.before_write = once


@pytest.mark.parametrize("meanwhile", [withdraw, repin, other_reference, move, delete, write_by_others])
async def test_what_changed_meanwhile_stops_it(world: World, meanwhile) -> None:  # type: ignore[no-untyped-def] # one of the functions above
    meanwhile(world)
    with pytest.raises(StartOver):
        await world.round()
    assert world.received() == []
    if world.api.machine is not None:
        assert world.sent_to == ""


async def test_what_is_sent_is_what_the_secret_holds_just_then(world: World) -> None:
    world.net.nodes[HERE].apply_error = talos.Unreachable("the connection ended")
    await world.round()
    world.net.nodes[HERE].apply_error = None
    changed = CLUSTER.configuration("changed").encode()
    world.api.secrets["one"] = {**world.api.secrets["one"], "config": changed}
    await world.round()
    assert world.received() == [changed]


async def test_an_identity_that_changes_between_look_and_send_stops_it(world: World) -> None:
    box = world.net.nodes[HERE]
    identities = iter([box.identity, STRANGER])

    class Shifty:
        def __get__(self, instance: object, owner: object) -> Identity:
            return next(identities)

    shifty = type("ShiftyNode", (type(box),), {"identity": Shifty(), "__init__": lambda self: None})()
    shifty.__dict__.update({k: v for k, v in vars(box).items() if k != "identity"})
    world.net.nodes[HERE] = shifty
    with pytest.raises(StartOver):
        await world.round()
    assert shifty.received == []
    assert world.sent_to == ""


async def test_nothing_is_sent_when_the_note_cannot_be_written(world: World) -> None:
    def away() -> None:
        world.api.error = kube.Unavailable("away")

    world.api.before_write = away
    with pytest.raises(kube.Unavailable):
        await world.round()
    assert world.received() == []


async def test_a_definite_refusal_shows_its_code_and_is_tried_again_with_backoff(world: World) -> None:
    box = world.net.nodes[HERE]
    box.apply_error = talos.Rejected("refused", code="INVALID_ARGUMENT", message="quotes s3cr3t")
    assert await world.round() == Again.BACKOFF
    assert world.reason == "ConfigurationRejected"
    assert "INVALID_ARGUMENT" in world.message
    assert "s3cr3t" not in world.message
    [event] = world.outbox.of(MachineConfigurationSent)
    assert (event.accepted, event.code) == (False, "INVALID_ARGUMENT")
    assert "s3cr3t" not in msgspec.json.encode(event).decode()

    seen: list[str] = []
    box.before_apply = lambda: seen.append(world.reason)
    box.apply_error = None
    await world.round()
    assert seen == ["ConfigurationRejected"], "shown as refused until the node says otherwise"
    assert world.received() == [DESIRED]
    assert world.reason == "ConfigurationSent"


async def test_no_answer_is_neither_a_yes_nor_a_no(world: World) -> None:
    box = world.net.nodes[HERE]
    box.apply_error = talos.Unreachable("the connection ended")
    await world.round()
    assert world.reason == "ConfigurationSent"
    assert world.sent_to == PIN
    box.apply_error = None
    await world.round()
    assert world.received() == [DESIRED], "the same boot and pin: sent again"


async def test_another_boot_after_the_note_gets_nothing(world: World) -> None:
    world.net.nodes[HERE].apply_error = talos.Unreachable("the connection ended")
    await world.round()
    world.net.nodes[HERE] = in_maintenance(OTHER)
    await world.round()
    assert world.reason == "ReappearedInMaintenance"
    assert world.received() == []
    world.api.edit(maintenance_fingerprint=OTHER)
    world.sync()
    await world.round()
    assert world.received() == [DESIRED], "a person pinned this boot, and nothing proves the identity"
    assert world.sent_to == OTHER


async def test_a_new_pin_is_ignored_while_a_running_node_proves_the_identity() -> None:
    world = World(start=machine(sent_to=PIN, maintenance_fingerprint=OTHER))
    world.net.nodes[HERE] = in_maintenance(OTHER)
    world.net.nodes[ELSEWHERE] = running()
    world.memory.remember(ELSEWHERE)
    await world.round()
    assert world.received() == []
    assert world.sent_to == PIN
