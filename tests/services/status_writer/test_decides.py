"""What the writer does with one observation after another: reads, writes, tells, and what it does not do."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from libs import bus, kube
from libs.events import MachineRef, NodeSighted, Outcome, SeenAddress
from libs.identity import Identity
from libs.machine import Ready, TalosMachine
from services.status_writer.news import StrangeObservationError
from tests.libs.rules.given import (
    DECLARED,
    IDENTITY,
    NOW,
    OTHER_PIN,
    PIN,
    SEEN_AT,
    discovery,
    lookup,
    lost,
    machine,
    node,
    read,
)
from tests.services.status_writer.fakes import Desk

ELSEWHERE, THIRD = "10.0.0.9", "10.0.0.17"
SECOND = timedelta(seconds=1)


async def test_records_writes_its_four_fields_and_tells() -> None:
    desk = Desk(machine())
    await desk.tell(discovery(ELSEWHERE), message_id="seen-1")
    assert desk.api.applied == [
        {
            "status": {
                "observedEndpoint": ELSEWHERE,
                "observedEndpointFor": DECLARED,
                "observedSource": "discovery",
                "observedAt": "2026-11-20T11:59:58.000000Z",
            }
        }
    ]
    assert set(desk.trail.letters) == {"decided/seen-1"}
    assert desk.trail.last_subject == "nodetrail.decided.recorded.nodetrail.one"
    event = desk.trail.last
    assert (event.outcome, event.before, event.after, event.replaces) == (
        Outcome.RECORDED,
        DECLARED,
        ELSEWHERE,
        DECLARED,
    )
    assert event.machine == MachineRef(namespace="nodetrail", name="one", uid="uid-1")
    assert event.observation == discovery(ELSEWHERE)
    assert event.observed_at == SEEN_AT


async def test_the_time_is_the_streams_less_the_age_to_the_microsecond() -> None:
    desk = Desk(machine())
    aged = msgspec.structs.replace(discovery(ELSEWHERE), age_seconds=1.5)
    await desk.tell(aged, at=SEEN_AT + timedelta(microseconds=7))
    assert desk.machine.status.observed_at == SEEN_AT + timedelta(microseconds=7)


async def test_what_changes_nothing_is_settled_at_once_without_a_read() -> None:
    desk = Desk(machine())
    assert await desk.tell(discovery(DECLARED))
    assert desk.api.reads == 0
    assert desk.trail.tries == 0


async def test_its_own_write_counts_before_the_watch_tells_of_it() -> None:
    desk = Desk(machine())
    watched = desk.machine
    await desk.tell(discovery(ELSEWHERE))
    desk.writer.machine_changed(watched, watched)  # late news of an older version
    assert await desk.tell(discovery(ELSEWHERE), at=SEEN_AT + SECOND)


async def test_what_changed_nothing_supersedes_what_is_older() -> None:
    desk = Desk(machine())
    await desk.tell(discovery(DECLARED))
    await desk.tell(discovery((ELSEWHERE, PIN)), at=SEEN_AT - SECOND)
    assert desk.trail.decided == [("refused", "Superseded")]


async def test_a_twin_at_the_old_address_silences_nobody() -> None:
    desk = Desk(lost())
    assert await desk.tell(discovery(DECLARED), at=SEEN_AT + SECOND)
    await desk.tell(node(ELSEWHERE))
    assert desk.trail.decided == [("recorded", "NodeMoved")]


@pytest.mark.parametrize(
    ("about", "observed", "decided"),
    [
        (lost(), discovery(ELSEWHERE), ("refused", "SelfReported")),
        (lost(), node(ELSEWHERE), ("recorded", "NodeMoved")),
        (lost(), lookup(ELSEWHERE), ("recorded", "NodeMoved")),
        (lost(), read(ELSEWHERE), ("recorded", "Proven")),
        (lost(ready=Ready.CONVERGED), node(ELSEWHERE), ("refused", "StillReadable")),
        (machine(approved=True), discovery(ELSEWHERE), ("refused", "CertificateNotPinned")),
        (machine(), discovery((DECLARED, PIN), (ELSEWHERE, OTHER_PIN)), ("refused", "TwinSuspected")),
    ],
)
async def test_the_rules_decide(about: TalosMachine, observed: Any, decided: tuple[str, str]) -> None:
    desk = Desk(about)
    await desk.tell(observed)
    assert desk.trail.decided == [decided]
    assert desk.trail.last_subject == f"nodetrail.decided.{decided[0]}.nodetrail.one"
    assert bool(desk.api.applied) is (decided[0] == "recorded")


async def test_the_live_object_decides_not_the_watched_one() -> None:
    desk = Desk(lost())
    desk.api.change(desk.machine, status=lost(ready=Ready.CONVERGED).status)
    await desk.tell(node(ELSEWHERE))
    assert desk.trail.decided == [("refused", "StillReadable")]


async def test_unknown_boxes_are_told_of_under_their_identity() -> None:
    desk = Desk(machine())
    await desk.tell(discovery(ELSEWHERE, identity=Identity(serial_number="else1")))
    assert desk.trail.decided == [("refused", "UnknownMachine")]
    assert desk.trail.last_subject.startswith("nodetrail.decided.refused._.")
    await desk.tell(node(ELSEWHERE, name="nobody", system_uuid=IDENTITY.uuid))
    assert desk.trail.last_subject == "nodetrail.decided.refused._.node-nobody"
    assert "nodetrail/one" in desk.trail.last.message
    assert desk.api.reads == 0


async def test_two_machines_of_one_identity_are_both_named() -> None:
    desk = Desk(machine(), machine(name="two", uid="uid-2"))
    await desk.tell(discovery(ELSEWHERE))
    assert desk.trail.decided == [("refused", "AmbiguousIdentity")]
    assert "nodetrail/one" in desk.trail.last.message
    assert "nodetrail/two" in desk.trail.last.message


async def test_of_two_machines_of_one_node_name_the_system_uuid_decides() -> None:
    other = Identity(uuid="7c1f0e5a-1111-4222-8333-444455556666")
    desk = Desk(lost(), lost(name="two", uid="uid-2", identity=other, endpoint="10.0.0.2"))
    await desk.tell(node(ELSEWHERE))
    assert desk.trail.decided[-1] == ("refused", "AmbiguousIdentity")
    await desk.tell(node(ELSEWHERE, system_uuid=other.uuid))
    assert desk.trail.last_subject == "nodetrail.decided.recorded.nodetrail.two"
    await desk.tell(node(THIRD, system_uuid="7c1f0e5a-9999-4222-8333-444455556666"))
    assert desk.trail.decided[-1] == ("refused", "AmbiguousIdentity")


async def test_where_another_machine_is_ready_nobody_is_sent() -> None:
    ready = lost(
        name="two",
        uid="uid-2",
        identity=Identity(serial_number="b2"),
        endpoint=ELSEWHERE,
        hostname="w2",
        ready=Ready.CONVERGED,
    )
    desk = Desk(lost(), ready)
    await desk.tell(node(ELSEWHERE))
    assert desk.trail.decided == [("refused", "AddressNotDialable")]
    assert "nodetrail/two" in desk.trail.last.message
    away = desk.api.change(ready, status=lost().status)
    desk.writer.machine_changed(ready, away)
    await desk.tell(lookup(ELSEWHERE))
    assert desk.trail.decided[-1] == ("recorded", "NodeMoved")


async def test_a_name_is_resolved_while_facts_are_gathered() -> None:
    desk = Desk(machine(endpoint="node.example"))
    desk.names = {"node.example": (ELSEWHERE,)}
    assert not await desk.tell(discovery(ELSEWHERE))
    assert desk.trail.tries == 0
    assert desk.api.applied == []
    await desk.tell(discovery((THIRD, PIN)), at=SEEN_AT - SECOND)
    assert desk.trail.decided == [("refused", "Superseded")], "it settled all the same"


@pytest.mark.parametrize("observed", [read(ELSEWHERE), lookup(ELSEWHERE)])
async def test_late_news_of_deleted_machines_is_dropped(observed: Any) -> None:
    desk = Desk(lost(uid="uid-of-a-namesake"))
    await desk.tell(observed)
    desk.api.machines.clear()
    await desk.tell(observed)
    anonymous = MachineRef(namespace="nodetrail", name="one")
    await desk.tell(msgspec.structs.replace(observed, machine=anonymous))
    assert desk.trail.tries == 0


async def test_a_machine_deleted_between_watch_and_read_is_dropped() -> None:
    desk = Desk(machine())
    desk.api.machines.clear()
    await desk.tell(discovery(ELSEWHERE))
    assert desk.trail.tries == 0


async def test_a_deleted_machine_is_forgotten() -> None:
    desk = Desk(machine())
    await desk.tell(discovery(DECLARED))
    desk.writer.machine_changed(desk.machine, None)
    assert desk.writer.settlements.newest("uid-1") is None
    assert len(desk.writer.directory) == 0
    await desk.tell(discovery(ELSEWHERE))
    assert desk.trail.decided == [("refused", "UnknownMachine")]


@pytest.mark.parametrize("observed", [discovery(), node(), lookup(), read()])
async def test_no_address_is_no_observation(observed: Any) -> None:
    desk = Desk(lost())
    assert await desk.tell(observed)
    assert desk.trail.tries == 0


@pytest.mark.parametrize(
    ("observed", "subject"),
    [
        (node(ELSEWHERE), "nodetrail.observed.node.another"),
        (node(ELSEWHERE), "nodetrail.observed.read.nodetrail.one"),
        (read(ELSEWHERE), "nodetrail.observed.read.nodetrail.two"),
        (read(ELSEWHERE), "nodetrail.observed.discovery.site.key"),
        (lookup(ELSEWHERE), "nodetrail.observed.elsewhere.nodetrail.one"),
        (lookup(ELSEWHERE), "nodetrail.something"),
        (read(ELSEWHERE), "nodetrail.observed.lookup.nodetrail.one"),
    ],
)
def test_who_speaks_of_something_else_than_his_subject_is_not_heard(observed: Any, subject: str) -> None:
    desk = Desk(lost())
    with pytest.raises(StrangeObservationError, match=subject):
        desk.writer.handle(desk.delivery(observed, subject=subject))


def test_another_event_is_not_heard() -> None:
    desk = Desk()
    told = desk.delivery(discovery(ELSEWHERE))
    sighted = NodeSighted(site="s", address=ELSEWHERE, common_name="n", fingerprint="f")
    with pytest.raises(StrangeObservationError, match="NodeSighted"):
        desk.writer.handle(msgspec.structs.replace(told, event=sighted))


async def test_the_source_is_the_subjects_word() -> None:
    desk = Desk(lost())
    liar = msgspec.structs.replace(discovery(ELSEWHERE), source=read(ELSEWHERE).source)
    await desk.tell(liar, subject="nodetrail.observed.discovery.site.key")
    assert desk.trail.decided == [("refused", "SelfReported")]
    assert desk.trail.last.source == "discovery"


async def test_a_refusal_that_repeats_is_told_hourly() -> None:
    desk = Desk(lost())
    for minute in range(180):
        desk.now = NOW + timedelta(minutes=minute)
        await desk.tell(discovery(ELSEWHERE), at=desk.now - SECOND)
    events = [event for _, event in desk.trail.letters.values()]
    assert [event.repeats for event in events] == [0, 59, 59]
    await desk.tell(discovery(THIRD), at=desk.now)
    assert desk.trail.last.repeats == 0
    assert len(desk.trail.letters) == 4, "other facts are told at once"


async def test_an_unknown_box_that_repeats_is_settled_at_once() -> None:
    desk = Desk()
    stranger = discovery(ELSEWHERE, identity=Identity(serial_number="else1"))
    assert not await desk.tell(stranger)
    assert await desk.tell(stranger)


async def test_a_twin_that_lacks_a_network_card_is_a_twin_all_the_same() -> None:
    cards = msgspec.structs.replace(IDENTITY, mac_addresses=("52:54:00:12:34:56", "52:54:00:12:34:57"))
    one_card = msgspec.structs.replace(IDENTITY, mac_addresses=("52:54:00:12:34:57",))
    desk = Desk(machine(identity=cards))
    await desk.tell(discovery((DECLARED, PIN), identity=cards))
    await desk.tell(discovery((ELSEWHERE, OTHER_PIN), identity=one_card))
    assert desk.trail.decided == [("refused", "TwinSuspected")]


async def test_twins_are_seen_over_all_sites() -> None:
    desk = Desk(machine())
    await desk.tell(discovery((DECLARED, PIN), site="near"))
    await desk.tell(discovery((ELSEWHERE, OTHER_PIN), site="far"))
    assert desk.trail.decided == [("refused", "TwinSuspected")]
    gone = discovery(site="near")
    await desk.tell(gone)
    await desk.tell(discovery((ELSEWHERE, OTHER_PIN), site="far"), at=SEEN_AT + SECOND)
    assert desk.trail.decided[-1] == ("recorded", "NotApproved")


async def test_an_event_that_is_too_large_is_shortened() -> None:
    desk = Desk(machine())
    desk.trail.broken = [bus.EventTooLarge("65 KiB")]
    many = tuple(SeenAddress(address=f"10.1.0.{n}", fingerprint=PIN) for n in range(200))
    await desk.tell(msgspec.structs.replace(discovery(ELSEWHERE), addresses=many))
    assert desk.trail.decided == [("recorded", "NotApproved")]
    assert len(desk.trail.last.observation.addresses) == 16


async def test_not_permitted_means_later_and_is_no_fault_of_the_message() -> None:
    desk = Desk(machine())
    desk.api.broken = kube.Forbidden("patch talosmachines/status")
    with pytest.raises(bus.Later):
        await desk.tell(discovery(ELSEWHERE))
