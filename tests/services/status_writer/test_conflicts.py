"""Somebody writes between read and patch, two writers at once, a crash at each step, an API server that is away."""

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from libs import bus, kube
from libs.machine import Ready, dial_endpoint
from services.status_writer.gate import Gate
from tests.libs.rules.given import DECLARED, SEEN_AT, discovery, lost, machine, node, read
from tests.services.status_writer.fakes import Desk, NoHealth

ELSEWHERE, THIRD = "10.0.0.9", "10.0.0.17"
SECOND = timedelta(seconds=1)


async def test_a_write_in_between_means_reading_and_deciding_again() -> None:
    desk = Desk(machine())

    def once() -> None:
        desk.api.meanwhile = None
        desk.api.change(desk.machine)

    desk.api.meanwhile = once
    await desk.tell(discovery(ELSEWHERE))
    assert desk.api.reads == 2
    assert desk.trail.decided == [("recorded", "NotApproved")]


async def test_what_no_longer_holds_is_not_written() -> None:
    desk = Desk(lost())

    def back_again() -> None:
        desk.api.meanwhile = None
        desk.api.change(desk.machine, status=lost(ready=Ready.CONVERGED).status)

    desk.api.meanwhile = back_again
    await desk.tell(node(ELSEWHERE))
    assert desk.api.applied == []
    assert desk.trail.decided == [("refused", "StillReadable")]


async def test_conflicts_without_end_mean_later() -> None:
    desk = Desk(machine())
    desk.api.meanwhile = lambda: void(desk.api.change(desk.machine))
    with pytest.raises(bus.Later):
        await desk.tell(discovery(ELSEWHERE))
    assert desk.api.reads < 20
    assert desk.trail.tries == 0


def void(_: object) -> None:
    """Nothing comes back."""


async def test_observations_of_one_machine_are_decided_in_turn() -> None:
    desk = Desk(lost())
    told = [desk.tell(read(f"10.0.1.{n}"), at=SEEN_AT + timedelta(milliseconds=n)) for n in range(30)]
    await asyncio.gather(*told)
    assert dial_endpoint(desk.machine) == "10.0.1.29"
    assert desk.metrics.conflicts._value.get() == 0


async def test_two_writers_at_once_end_where_one_would() -> None:
    for order in itertools.permutations(range(4)):
        desk = Desk(lost())
        writers = [desk.writer, desk.new_writer()]
        deliveries = [desk.delivery(read(f"10.0.1.{n}"), at=SEEN_AT + timedelta(milliseconds=n)) for n in order]
        await asyncio.gather(*(desk.deliver(delivery, writer=writer) for delivery in deliveries for writer in writers))
        assert dial_endpoint(desk.machine) == "10.0.1.3"
        recorded = [event for _, event in desk.trail.letters.values() if event.outcome == "recorded"]
        assert recorded, "each that was written is told once"
        assert len({event.observation_id for event in recorded}) == len(recorded)


async def test_crashed_between_write_and_telling_it_is_told_when_delivered_again() -> None:
    desk = Desk(machine(observed=THIRD))
    await desk.tell(seen := discovery(ELSEWHERE), message_id="seen-1")
    told = desk.trail.letters.pop("decided/seen-1")
    after_crash = desk.new_writer()
    await desk.deliver(desk.delivery(seen, message_id="seen-1"), writer=after_crash)
    assert len(desk.api.applied) == 1
    again = desk.trail.letters["decided/seen-1"]
    assert again[0] == told[0]
    same = ("outcome", "reason", "rule", "after", "replaces", "observation_id", "observed_at", "observation")
    for field in same:
        assert getattr(again[1], field) == getattr(told[1], field)


async def test_delivered_again_after_all_was_done_nothing_changes() -> None:
    desk = Desk(machine())
    delivery = desk.delivery(discovery(ELSEWHERE))
    await desk.deliver(delivery)
    before = dict(desk.trail.letters)
    await desk.deliver(delivery)
    await desk.deliver(delivery, writer=desk.new_writer())
    assert desk.trail.letters == before
    assert len(desk.api.applied) == 1


async def test_told_again_after_an_edit_it_names_what_it_was_decided_against() -> None:
    desk = Desk(machine())
    delivery = desk.delivery(discovery(ELSEWHERE))
    await desk.deliver(delivery)
    desk.trail.letters.clear()
    spec = msgspec.structs.replace(desk.machine.spec, endpoint="10.9.9.9")
    desk.writer.machine_changed(desk.machine, desk.api.change(desk.machine, spec=spec))
    await desk.deliver(delivery)
    assert (desk.trail.last.replaces, desk.trail.last.after) == (DECLARED, ELSEWHERE)


async def test_a_write_that_happened_though_the_answer_was_lost() -> None:
    desk = Desk(machine())
    apply = desk.api.apply

    async def lose_the_answer(*args: Any, **kwargs: Any) -> Any:
        await apply(*args, **kwargs)
        raise kube.Unavailable("the connection broke")

    desk.api.apply = lose_the_answer  # type: ignore[method-assign] # one method of the fake
    delivery = desk.delivery(discovery(ELSEWHERE))
    with pytest.raises(bus.Later):
        await desk.deliver(delivery)
    desk.api.apply = apply  # type: ignore[method-assign] # as above
    await desk.deliver(delivery)
    assert desk.trail.decided == [("recorded", "NotApproved")]
    assert len(desk.api.applied) == 1


async def test_without_an_api_server_nothing_is_fetched_and_all_is_done_later() -> None:
    desk = Desk(machine())
    delivery = desk.delivery(discovery(ELSEWHERE))
    desk.api.broken = kube.Unavailable("connection refused", retry_after_seconds=7)
    with pytest.raises(bus.Later) as later:
        await desk.deliver(delivery)
    assert later.value.seconds == 7
    assert not desk.gate.is_open
    assert "connection refused" in desk.health.waits["kubernetes"]
    opened = asyncio.create_task(desk.gate.wait())  # noqa: TID251 - a test that waits for it itself
    await asyncio.sleep(0.01)
    assert not opened.done()
    desk.api.broken = None
    async with asyncio.timeout(5):
        await opened
    assert not desk.health.waits
    await desk.deliver(delivery)
    assert desk.trail.decided == [("recorded", "NotApproved")]


async def test_the_gate_waits_for_the_watch_as_well() -> None:
    async def ask() -> None:
        raise kube.Forbidden("an answer, whatever it says")

    health = NoHealth()
    gate = Gate(ask, health)
    waiting = asyncio.create_task(gate.wait())  # noqa: TID251 - as above
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.waiting("machines", "connection refused")
    assert health.waits == {"machines": "connection refused"}
    gate.fine("machines")
    async with asyncio.timeout(5):
        await waiting
        gate.close("gone")
        await gate.wait()
    assert not health.waits


async def test_turns_leave_nothing_behind() -> None:
    desk = Desk(lost())
    await asyncio.gather(*(desk.tell(read(f"10.0.1.{n}")) for n in range(5)))
    assert len(desk.writer._turns) == 0


async def test_a_newer_unchanged_one_settles_before_an_older_is_decided() -> None:
    desk = Desk(lost())
    await desk.tell(read(DECLARED), at=SEEN_AT + SECOND)
    await desk.tell(read(ELSEWHERE))
    assert desk.trail.decided == [("refused", "Superseded")]
