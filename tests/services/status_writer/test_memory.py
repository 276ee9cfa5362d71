"""What is remembered: over a restart, within bounds, and which values are learned to be shared."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from libs import bus
from libs.events import EndpointDecided, EndpointObserved, Outcome, SeenAddress, subjects
from libs.identity import Identity
from libs.rules import Settled
from services.status_writer import memory, sightings
from services.status_writer.memory import AN_HOUR_MAX, Refusals, Settlements
from services.status_writer.rebuild import rebuild
from services.status_writer.sightings import Sightings
from tests.libs.rules.given import (
    DECLARED,
    IDENTITY,
    NOW,
    OTHER_PIN,
    PIN,
    SEEN_AT,
    discovery,
    lost,
    machine,
    node,
)
from tests.services.status_writer.fakes import Desk, subject_of

ELSEWHERE = "10.0.0.9"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Streams:
    """The newest message of each subject, as both streams have them."""

    def __init__(self, *deliveries: bus.Delivery) -> None:
        self.deliveries = deliveries

    async def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]:
        prefix = subject_filter.removesuffix(">")
        for delivery in self.deliveries:
            if delivery.stream == stream and delivery.subject.startswith(prefix):
                yield delivery


def told(desk: Desk) -> list[bus.Delivery]:
    """What the desk published, as it comes out of the trail."""
    return [
        bus.Delivery(
            subject=subject, stream=subjects.TRAIL, sequence=n, stored_at=desk.now, message_id=message_id, event=event
        )
        for n, (message_id, (subject, event)) in enumerate(desk.trail.letters.items())
    ]


async def test_what_was_settled_is_known_after_a_restart() -> None:
    desk = Desk(machine())
    unchanged = desk.delivery(discovery(DECLARED), message_id="unchanged")
    await desk.deliver(unchanged)
    writer = desk.new_writer()
    await rebuild(writer, Streams(unchanged), now=NOW)
    assert writer.settlements.newest("uid-1") == Settled(SEEN_AT, "unchanged")
    await desk.tell(discovery((ELSEWHERE, PIN), site="far"), at=SEEN_AT - SECOND, writer=writer)
    assert desk.trail.decided == [("refused", "Superseded")]


async def test_what_was_recorded_is_known_after_a_restart() -> None:
    desk = Desk(lost())
    await desk.tell(node(ELSEWHERE), message_id="recorded")
    writer = desk.new_writer()
    await rebuild(writer, Streams(*told(desk)), now=NOW)
    assert writer.settlements.newest("uid-1") == Settled(SEEN_AT, "recorded")
    assert writer.settlements.dialled_before("uid-1", DECLARED) == ELSEWHERE
    assert writer.settlements.dialled_before("uid-1", "10.9.9.9") == "10.9.9.9"


async def test_what_was_recorded_and_never_told_is_told_at_the_next_start() -> None:
    desk = Desk(lost())
    await desk.tell(node(ELSEWHERE))
    (_, before), desk.trail.letters = desk.trail.letters.popitem()[1], {}
    writer = desk.new_writer()
    await rebuild(writer, Streams(), now=NOW)
    again = desk.trail.last
    same = ("outcome", "reason", "rule", "source", "machine", "before", "after", "replaces", "observed_at")
    assert all(getattr(again, field) == getattr(before, field) for field in same)
    await rebuild(desk.new_writer(), Streams(*told(desk)), now=NOW)
    assert desk.trail.tries == 2, "told once"


async def test_what_may_be_delivered_again_is_told_at_the_start_under_the_same_id() -> None:
    """A newer observation could take its place in the stream before that."""
    desk = Desk(lost())
    delivery = desk.delivery(node(ELSEWHERE), message_id="seen-1")
    await desk.deliver(delivery)
    before, desk.trail.letters = desk.trail.letters, {}
    writer = desk.new_writer()
    await rebuild(writer, Streams(delivery), now=NOW)
    assert desk.trail.letters == before
    await desk.deliver(delivery, writer=writer)
    assert desk.trail.letters == before


async def test_a_deleted_namesakes_record_settles_nothing() -> None:
    desk = Desk(lost())
    await desk.tell(node(ELSEWHERE))
    records = told(desk)
    other = Desk(lost(uid="uid-2"))
    await rebuild(other.writer, Streams(*records), now=NOW)
    assert other.writer.settlements.newest("uid-1") is None
    assert other.writer.settlements.newest("uid-2") is None


async def test_twins_are_known_after_a_restart() -> None:
    desk = Desk(machine())
    here = desk.delivery(discovery((DECLARED, PIN), site="near"))
    await rebuild(desk.writer, Streams(here), now=NOW)
    await desk.tell(discovery((ELSEWHERE, OTHER_PIN), site="far"))
    assert desk.trail.decided == [("refused", "TwinSuspected")]


async def test_a_restart_does_not_repeat_refusals() -> None:
    desk = Desk(lost())
    await desk.tell(discovery(ELSEWHERE))
    writer = desk.new_writer()
    await rebuild(writer, Streams(*told(desk)), now=NOW)
    await desk.tell(discovery(ELSEWHERE), at=SEEN_AT + SECOND, writer=writer)
    assert len(desk.trail.letters) == 1
    later = desk.new_writer()
    await rebuild(later, Streams(*told(desk)), now=NOW + timedelta(hours=2))
    await desk.tell(discovery(ELSEWHERE), at=SEEN_AT + SECOND, writer=later)
    assert len(desk.trail.letters) == 2


async def test_a_strange_message_does_not_stop_the_start() -> None:
    desk = Desk(machine())
    strange = desk.delivery(node(DECLARED), subject="nodetrail.observed.node.another")
    fine = desk.delivery(discovery(DECLARED), message_id="fine")
    await rebuild(desk.writer, Streams(strange, fine), now=NOW)
    assert desk.writer.settlements.newest("uid-1") == Settled(SEEN_AT, "fine")


def test_of_settlements_the_newest_stays() -> None:
    settlements = Settlements()
    settlements.settle("u", SEEN_AT, "b")
    settlements.settle("u", SEEN_AT, "a")
    settlements.settle("u", SEEN_AT - SECOND, "z")
    assert settlements.newest("u") == Settled(SEEN_AT, "b")


def refusal(address: str) -> EndpointDecided:
    observed = discovery(address)
    return EndpointDecided(
        outcome=Outcome.REFUSED, reason="SelfReported", rule="r", source=observed.source, observation=observed
    )


def test_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REFUSALS_MAX", 10)
    refusals = Refusals()
    for n in range(100):
        refusals.published(f"s{n}", refusal(DECLARED), NOW)
    assert not refusals.is_repeat("s1", refusal(DECLARED), NOW)
    assert refusals.is_repeat("s99", refusal(DECLARED), NOW)
    assert (len(refusals._known), len(refusals._published)) == (10, 10)


def take(seen: Sightings, observed: EndpointObserved, at: Any = SEEN_AT, subject: str = "") -> Any:
    assert observed.identity is not None
    return seen.take(subject or subject_of(observed), observed, observed.identity, at)


def test_pictures_are_bounded_and_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sightings, "PICTURES_MAX", 10)
    seen = Sightings()
    for n in range(100):
        take(seen, discovery(ELSEWHERE, identity=Identity(serial_number=f"serial{n}")), SEEN_AT + n * SECOND)
    assert len(seen) == 10
    seen.forget(SEEN_AT + timedelta(hours=1, seconds=95))
    assert len(seen) == 5
    seen.forget(SEEN_AT + timedelta(hours=9))
    assert len(seen) == len(seen._boxes) == len(seen._holders) == 0


def test_an_older_picture_does_not_replace_a_newer() -> None:
    seen = Sightings()
    take(seen, discovery((ELSEWHERE, PIN)))
    box = take(seen, discovery((DECLARED, PIN)), SEEN_AT - SECOND)
    assert [picture.addresses[0].address for picture in box.pictures.values()] == [ELSEWHERE]


def test_a_subject_that_shows_another_identity_leaves_its_old_box() -> None:
    seen = Sightings()
    take(seen, discovery(ELSEWHERE), subject="nodetrail.observed.discovery.s.k")
    box = take(
        seen, discovery(ELSEWHERE, identity=Identity(serial_number="x1")), subject="nodetrail.observed.discovery.s.k"
    )
    assert len(seen) == len(seen._boxes) == 1
    assert box.signals.serial == "x1"
    assert next(iter(box.pictures.values())).site == "s"


SAME_BOARD = Identity(uuid=IDENTITY.uuid, serial_number="cz9999", mac_addresses=("52:54:00:99:99:99",))


def test_a_value_of_two_live_boxes_is_learned_to_be_shared() -> None:
    seen = Sightings()
    one, other = discovery("10.0.0.1"), discovery("10.0.0.2", identity=SAME_BOARD)
    take(seen, one)
    take(seen, other, SEEN_AT + SECOND)
    assert not seen.shared, "it could be one box whose parts were changed"
    take(seen, one, SEEN_AT + MINUTE)
    assert seen.shared == {"uuid:44454c4c-4200-1035-8052-b3c04f4b4e32"}


@pytest.mark.parametrize(
    ("second", "third_at"),
    [
        pytest.param(discovery("10.0.0.1", identity=SAME_BOARD), SEEN_AT + MINUTE, id="at the same address"),
        pytest.param(discovery("10.0.0.2", identity=SAME_BOARD), SEEN_AT + 7 * MINUTE, id="long gone"),
        pytest.param(
            discovery("10.0.0.2", identity=Identity(uuid=IDENTITY.uuid, serial_number="CZ2903")),
            SEEN_AT + MINUTE,
            id="nothing else differs",
        ),
        pytest.param(discovery(identity=SAME_BOARD), SEEN_AT + MINUTE, id="answers nowhere"),
    ],
)
def test_otherwise_nothing_is_learned(second: EndpointObserved, third_at: Any) -> None:
    seen = Sightings()
    take(seen, discovery("10.0.0.1"))
    take(seen, second, SEEN_AT + SECOND)
    take(seen, discovery("10.0.0.1"), third_at)
    assert not seen.shared


async def test_boards_that_share_a_uuid_are_told_apart_once_that_is_learned() -> None:
    desk = Desk(machine())
    twin_board = discovery("10.0.0.2", identity=SAME_BOARD)
    await desk.tell(discovery(DECLARED))
    await desk.tell(twin_board, at=SEEN_AT + SECOND)
    assert desk.trail.decided == [("refused", "AmbiguousIdentity")]
    await desk.tell(discovery(DECLARED), at=SEEN_AT + MINUTE)
    await desk.tell(twin_board, at=SEEN_AT + MINUTE)
    assert desk.trail.decided[1:] == [("refused", "UnknownMachine")]
    desk.now = NOW + MINUTE
    await desk.tell(discovery(ELSEWHERE), at=SEEN_AT + MINUTE + SECOND)
    assert desk.trail.decided[-1] == ("recorded", "NotApproved"), "serial and MAC are enough"


async def test_one_signal_that_another_live_box_shows_moves_nobody() -> None:
    desk = Desk(machine(identity=Identity(serial_number="cz2903")))
    other = Identity(serial_number="CZ2903", uuid="7c1f0e5a-1111-4222-8333-444455556666")
    await desk.tell(discovery("10.0.0.3", identity=other))
    assert desk.trail.decided == [("recorded", "NotApproved")]
    await desk.tell(discovery("10.0.0.4"), at=SEEN_AT + SECOND)
    assert desk.trail.decided[-1] == ("refused", "UnknownMachine")
    assert "nodetrail/one" in desk.trail.last.message


def test_facts_of_a_refusal_do_not_depend_on_the_order_of_addresses() -> None:
    refusals = Refusals()
    refusals.published("s", msgspec.structs.replace(refusal(DECLARED), observation=discovery(DECLARED, ELSEWHERE)), NOW)
    same = msgspec.structs.replace(refusal(DECLARED), observation=discovery(ELSEWHERE, DECLARED))
    assert refusals.is_repeat("s", same, NOW)


def test_a_box_with_another_certificate_at_every_sweep_is_refused_once() -> None:
    """How often a liar changes his certificate is up to him; the trail is not his."""
    refusals, event = Refusals(), refusal("10.0.0.1")
    refusals.published("s", event, SEEN_AT)
    seen = (SeenAddress(address="10.0.0.1", fingerprint="Z" * 43 + "="),)
    again = msgspec.structs.replace(event, observation=msgspec.structs.replace(event.observation, addresses=seen))
    assert refusals.is_repeat("s", again, SEEN_AT + SECOND)


def test_of_one_subject_so_many_refusals_are_published_in_an_hour() -> None:
    refusals = Refusals()
    for number in range(AN_HOUR_MAX):
        assert not refusals.is_repeat("s", refusal(f"10.0.1.{number}"), SEEN_AT)
        refusals.published("s", refusal(f"10.0.1.{number}"), SEEN_AT)
    assert refusals.is_repeat("s", refusal("10.0.2.1"), SEEN_AT + MINUTE)
    assert not refusals.is_repeat("other", refusal("10.0.2.1"), SEEN_AT + MINUTE)
    assert not refusals.is_repeat("s", refusal("10.0.2.1"), SEEN_AT + 61 * MINUTE)
