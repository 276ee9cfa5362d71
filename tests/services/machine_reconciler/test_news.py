"""What arrives from the streams wakes the right machines, and nothing is lost when it cannot be taken in now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs import bus, kube
from libs.events import EndpointDecided, EndpointObserved, MachineRef, NodeRef, Outcome, SeenAddress
from libs.machine import Source
from services.machine_reconciler.machines import Machines
from services.machine_reconciler.news import News
from services.machine_reconciler.pictures import Pictures
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, IDENTITY, PIN, machine
from tests.services.machine_reconciler.fakes import MOMENT

KEY = ("nodetrail", "one")
PICTURE = EndpointObserved(
    source=Source.DISCOVERY, identity=IDENTITY, addresses=(SeenAddress(address=HERE, fingerprint=PIN),), site="here"
)
NODE = EndpointObserved(
    source=Source.NODE,
    addresses=(SeenAddress(address=ELSEWHERE),),
    node=NodeRef(name="one", uid="n-1", resource_version="5"),
)


DECIDED = "nodetrail.decided.recorded.nodetrail.one"


def recorded(uid: str = "u-1") -> EndpointDecided:
    return EndpointDecided(
        outcome=Outcome.RECORDED,
        reason="Recorded",
        rule="read",
        source=Source.READ,
        machine=MachineRef(namespace="nodetrail", name="one", uid=uid),
        before=HERE,
        after=ELSEWHERE,
        observation=PICTURE,
    )


def delivery(event: EndpointObserved | EndpointDecided, subject: str = "") -> bus.Delivery:
    subject = subject or (
        DECIDED if isinstance(event, EndpointDecided) else f"nodetrail.observed.{event.source}.here.one"
    )
    return bus.Delivery(subject=subject, stream="S", sequence=1, stored_at=MOMENT, message_id="m", event=event)


class FakeLoop:
    def __init__(self) -> None:
        self.woken: list[Any] = []
        self.nodes: list[kube.Node] = []
        self.worked: list[Any] = []

    def look_at(self, key: object) -> None:
        self.woken.append(key)

    def node_seen(self, node: kube.Node) -> None:
        self.nodes.append(node)

    def worked_at(self, key: object, addresses: list[str]) -> None:
        self.worked.append((key, addresses))


class FakeRegistrar:
    def __init__(self) -> None:
        self.considered: list[EndpointObserved] = []
        self.error: Exception | None = None

    async def consider(self, observed: EndpointObserved) -> None:
        if self.error is not None:
            raise self.error
        self.considered.append(observed)


class Desk:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.registrar = FakeRegistrar()
        self.machines = Machines()
        self.pictures = Pictures(clock=lambda: MOMENT)
        self.news = News(self.loop, self.machines, self.pictures, self.registrar)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_picture_of_nobodys_box_is_considered(desk: Desk) -> None:
    work = desk.news.sighting(delivery(PICTURE))
    assert work is not None
    await work
    assert desk.registrar.considered == [PICTURE]


def test_a_changed_picture_wakes_its_machine_and_the_same_again_does_not(desk: Desk) -> None:
    desk.machines.put(machine())
    assert desk.news.sighting(delivery(PICTURE)) is None
    assert desk.news.sighting(delivery(PICTURE)) is None
    assert desk.loop.woken == [KEY]
    assert len(desk.pictures.of(machine())) == 1


async def test_a_registration_waits_for_the_api_server(desk: Desk) -> None:
    desk.registrar.error = kube.Unavailable("away")
    work = desk.news.sighting(delivery(PICTURE))
    assert work is not None
    with pytest.raises(bus.Later):
        await work


def test_a_node_event_is_passed_on(desk: Desk) -> None:
    desk.news.trail(delivery(NODE, "nodetrail.observed.node.one"))
    [node] = desk.loop.nodes
    assert (node.metadata.name, node.addresses()) == ("one", (ELSEWHERE,))


def test_who_speaks_is_told_by_the_subject_alone(desk: Desk) -> None:
    """A stolen key may write any payload, and its own subjects only."""
    desk.machines.put(machine())
    desk.news.trail(delivery(NODE, "nodetrail.observed.lookup.nodetrail.one"))
    desk.news.trail(delivery(recorded(), "nodetrail.observed.node.one"))
    assert (desk.loop.nodes, desk.loop.worked) == ([], [])


def test_recorded_addresses_are_remembered_for_the_machine_that_was_meant(desk: Desk) -> None:
    desk.machines.put(machine())
    desk.news.trail(delivery(recorded(uid="a deleted namesake's")))
    assert desk.loop.worked == []
    desk.news.trail(delivery(recorded()))
    assert desk.loop.worked == [(KEY, [HERE, ELSEWHERE])]


async def test_it_begins_with_what_was_recorded_and_seen_before(desk: Desk) -> None:
    class Streams:
        async def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]:
            yield delivery(recorded() if stream == "TRAIL" else PICTURE)

    desk.machines.put(machine())
    await desk.news.catch_up(Streams())
    assert desk.loop.worked == [(KEY, [HERE, ELSEWHERE])]
    assert len(desk.pictures.of(machine())) == 1
    assert desk.registrar.considered == []
