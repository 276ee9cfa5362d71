"""Who is meant by an identity or a Kubernetes Node, and that the newest version of a machine is the one known."""

from __future__ import annotations

import msgspec
import pytest

from libs import kube
from libs.identity import Identity
from libs.machine import TalosMachine
from libs.machine.model import ManagedFields
from services.machine_reconciler.machines import Machines, node_names
from services.machine_reconciler.nodes import Nodes, lists
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, IDENTITY, machine
from tests.services.machine_reconciler.fakes import node


def version(machine: TalosMachine, number: str, **changes: object) -> TalosMachine:
    metadata = msgspec.structs.replace(machine.metadata, resource_version=number)
    return msgspec.structs.replace(machine, metadata=metadata, **changes)


@pytest.fixture
def machines() -> Machines:
    machines = Machines()
    machines.put(version(machine(hostname="one"), "10"))
    return machines


def test_what_was_written_counts_before_the_watch_tells_of_it(machines: Machines) -> None:
    written = version(machine(hostname="written"), "12")
    machines.put(written)
    machines.put(version(machine(hostname="late"), "11"))
    assert machines.get(written.key) == written
    assert machines.meant_by(node("written")) == {written.key}
    assert machines.meant_by(node("one")) == frozenset()


def test_a_namesake_is_newer_whatever_its_version(machines: Machines) -> None:
    namesake = version(machine(hostname="two"), "3")
    namesake = msgspec.structs.replace(namesake, metadata=msgspec.structs.replace(namesake.metadata, uid="u-2"))
    machines.put(namesake)
    machines.remove(machine())
    assert machines.get(namesake.key) == namesake


def test_nothing_is_left_of_a_deleted_machine(machines: Machines) -> None:
    machines.remove(machine())
    assert len(machines) == machines.unapproved == 0
    assert machines.find(IDENTITY).matching == {}
    assert machines.meant_by(node("one", uuid=IDENTITY.uuid)) == frozenset()
    assert machines._by_node == {}


def test_who_waits_for_approval_is_counted(machines: Machines) -> None:
    assert machines.unapproved == 0
    machines.put(version(machine(approved=False), "11"))
    assert machines.unapproved == 1
    machines.put(version(machine(approved=False, sent_to="x"), "12"))
    assert machines.unapproved == 0, "sent once, it waits for nobody"


def test_a_node_is_a_machines_by_any_name_and_by_uuid(machines: Machines) -> None:
    key = machine().key
    told = version(machine(hostname="one"), "11")
    machines.put(msgspec.structs.replace(told, status=msgspec.structs.replace(told.status, node_name="told")))
    for seen in (node("one"), node("told"), node("other", uuid=IDENTITY.uuid)):
        assert machines.meant_by(seen) == {key}
    assert machines.meant_by(node("other", uuid="9" * 8)) == frozenset()


def test_managed_fields_are_not_kept(machines: Machines) -> None:
    heavy = version(machine(), "11")
    heavy = msgspec.structs.replace(
        heavy, metadata=msgspec.structs.replace(heavy.metadata, managed_fields=(ManagedFields(manager="x"),))
    )
    machines.put(heavy)
    known = machines.get(heavy.key)
    assert known is not None
    assert known.metadata.managed_fields == ()


def test_the_declared_name_comes_before_the_told_one() -> None:
    one = machine(hostname="declared")
    one = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, node_name="told"))
    assert node_names(one) == ["declared", "told"]
    assert node_names(machine()) == []


def test_nodes_to_try_are_the_named_ones_and_those_like_it_and_silent_ones_last() -> None:
    nodes = Nodes()
    swapped = "11111111-2222-4333-8444-555555555555".upper()
    for seen in (
        node("old", "10.0.0.5", uuid=IDENTITY.uuid, ready=False),
        node("twin", "10.0.0.4", uuid=swapped),
        node("one", HERE),
        node("other", "10.0.0.6", uuid="9" * 8),
    ):
        nodes.put(seen)
    lost = machine(hostname="one")
    assert _names(nodes.named_by(lost)) == ["one"]
    assert _names(nodes.like(lost)) == ["twin", "old"], "a silent Node is asked last"
    assert _names(nodes.like(machine(hostname="twin"))) == ["old"], "what has its name is no stranger"
    nodes.remove(node("twin"))
    assert _names(nodes.like(lost)) == ["old"]


def test_a_machine_without_uuid_has_no_nodes_without_one() -> None:
    nodes = Nodes()
    nodes.put(node("blank", HERE))
    assert nodes.like(machine(identity=Identity(serial_number="S1"))) == []


def test_the_name_that_a_node_has_just_told_finds_its_addresses() -> None:
    nodes = Nodes()
    nodes.put(node("told", HERE))
    assert nodes.addresses_of(machine()) is None
    assert nodes.addresses_of(machine(), told="told") == (HERE,)


def _names(found: list[kube.Node]) -> list[str]:
    return [node.metadata.name for node in found]


def test_addresses_of_a_machine_are_its_nodes_or_unknown() -> None:
    nodes = Nodes()
    assert nodes.addresses_of(machine(hostname="one")) is None
    nodes.put(node("one", HERE, ELSEWHERE))
    assert nodes.addresses_of(machine(hostname="one")) == (HERE, ELSEWHERE)


@pytest.mark.parametrize(
    ("dial", "listed"), [(HERE, True), (f"{HERE}:50001", True), (ELSEWHERE, False), ("one.example", False)]
)
def test_whether_a_node_lists_what_is_dialled(dial: str, listed: bool) -> None:
    assert lists(node("one", "not an address", f"::ffff:{HERE}"), dial) is listed


def test_a_kubelet_that_writes_novels_is_read_as_far_as_it_makes_sense() -> None:
    nodes, odd = Nodes(), node("told", HERE, "1" * 70_000, uuid="U" * 70_000)
    nodes.put(odd)
    assert (odd.addresses(), odd.system_uuid) == ((HERE,), "")
    assert nodes.addresses_of(machine(), told="told") == (HERE,)
    nodes.remove(odd)
    assert nodes.addresses_of(machine(), told="told") is None
