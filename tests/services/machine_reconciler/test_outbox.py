"""Events wait for NATS in order, bounded, and what no longer holds is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.events import EndpointObserved, Event, MachineReadinessChanged, MachineRef
from libs.machine import Source
from services.machine_reconciler import outbox as outbox_module
from services.machine_reconciler.outbox import HISTORY_MAX, Outbox


class FakePublisher:
    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.published: list[str] = []
        self.error: Exception | None = None

    async def publish(self, event: Event, *, subject: str, message_id: str, made_at: float | None = None) -> None:
        # The bus fills in the age of an observation; no other event has one.
        assert (made_at is not None) == isinstance(event, EndpointObserved)
        await self.open.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.published.append(message_id)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.published) < count:
                await asyncio.sleep(0)


EVENT = MachineReadinessChanged(machine=MachineRef(namespace="n", name="m"), status="True", reason="Converged")


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
async def outbox(publisher: FakePublisher) -> AsyncIterator[Outbox]:
    outbox = Outbox(publisher)
    running = asyncio.ensure_future(outbox.run())
    yield outbox
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_observations_are_published_with_their_age_and_other_events_as_they_are(
    outbox: Outbox, publisher: FakePublisher
) -> None:
    outbox.put(EVENT, subject="a", message_id="event")
    outbox.put(EndpointObserved(source=Source.READ, addresses=()), subject="b", message_id="observation")
    await publisher.until(2)
    assert sorted(publisher.published) == ["event", "observation"]


async def test_one_subject_keeps_its_order(outbox: Outbox, publisher: FakePublisher) -> None:
    for number in range(5):
        outbox.put(EVENT, subject="a", message_id=str(number))
    await publisher.until(5)
    assert publisher.published == ["0", "1", "2", "3", "4"]


async def test_what_waits_is_replaced_by_what_is_newer_if_only_that_holds(
    outbox: Outbox, publisher: FakePublisher
) -> None:
    publisher.open.clear()
    for number in range(3):
        outbox.put(EVENT, subject="a", message_id=str(number), newest_only=True)
    publisher.open.set()
    await publisher.until(1)
    assert publisher.published == ["2"]


async def test_history_is_bounded_and_what_falls_out_is_counted(outbox: Outbox, publisher: FakePublisher) -> None:
    publisher.open.clear()
    for number in range(HISTORY_MAX + 3):
        outbox.put(EVENT, subject="a", message_id=str(number))
    assert outbox.dropped == 3
    publisher.open.set()
    await publisher.until(HISTORY_MAX)
    assert publisher.published[-1] == str(HISTORY_MAX + 2)


async def test_subjects_are_bounded(outbox: Outbox, publisher: FakePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "SUBJECTS_MAX", 3)
    publisher.open.clear()
    for number in range(5):
        outbox.put(EVENT, subject=f"s{number}", message_id=str(number))
    publisher.open.set()
    await publisher.until(3)
    assert publisher.published == ["2", "3", "4"]


async def test_an_event_that_can_never_be_published_stops_no_other(outbox: Outbox, publisher: FakePublisher) -> None:
    publisher.error = ValueError("too large")
    outbox.put(EVENT, subject="a", message_id="large")
    outbox.put(EVENT, subject="a", message_id="next")
    await publisher.until(1)
    assert publisher.published == ["next"]


async def test_nothing_is_kept_of_what_was_published(outbox: Outbox, publisher: FakePublisher) -> None:
    outbox.put(EVENT, subject="a", message_id="1")
    await publisher.until(1)
    await asyncio.sleep(0)
    assert outbox._waiting == {}
