"""Who answers at an open port, and what broken and hostile boxes can do about it: nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
import structlog

from libs import talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from services.discovery import probe
from services.discovery.picture import Answer
from services.discovery.probe import Nobody, Outcome, Prober, Sighting, Strangers, name_of
from tests.services.discovery import boxes

Thing = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def test_a_box_in_maintenance_mode_says_who_it_is_under_its_certificate() -> None:
    address, who = f"{boxes.fresh_subnet()}.1", boxes.identity(1)
    async with boxes.box_at(address, who=who) as port:
        found = await Prober(2).probe(Endpoint(address))
        assert isinstance(found, Answer)
        assert (found.address, found.identity, found.fingerprint) == (address, who, port.fingerprint)
        assert time.monotonic() - 2 < found.at <= time.monotonic()
        assert len(port.box.became) == 1, "identity and fingerprint are of one connection"


async def test_a_configured_node_is_sighted_and_asked_nothing() -> None:
    address = f"{boxes.fresh_subnet()}.1"
    async with boxes.box_at(address, who=boxes.identity(1), configured_as="cp-1") as port:
        found = await Prober(2).probe(Endpoint(address))
        assert isinstance(found, Sighting)
        assert (found.address, found.common_name, found.fingerprint) == (address, "cp-1", port.fingerprint)


async def test_a_box_without_any_usable_signal_is_nobody() -> None:
    address = f"{boxes.fresh_subnet()}.1"
    placeholder = Identity(uuid="00000000-0000-0000-0000-000000000000", serial_number="To Be Filled By O.E.M.")
    async with boxes.box_at(address, who=placeholder):
        found = await Prober(2).probe(Endpoint(address))
    assert isinstance(found, Nobody)
    assert found.outcome is Outcome.ANONYMOUS


@pytest.mark.parametrize(
    ("thing", "outcome"),
    [
        (boxes.garbage, Outcome.STRANGE),
        (boxes.silence, Outcome.GONE),
        (boxes.hang_up, Outcome.GONE),
        (boxes.endless, Outcome.GONE),
    ],
)
async def test_what_is_no_node_is_named_in_bounded_time(thing: Thing, outcome: Outcome) -> None:
    address = f"{boxes.fresh_subnet()}.1"
    async with boxes.thing_at(address, thing):
        before = time.monotonic()
        found = await Prober(0.3).probe(Endpoint(address))
        assert time.monotonic() - before < 3
    assert isinstance(found, Nobody)
    assert found.outcome is outcome
    assert found.why


async def test_a_fault_of_ours_is_logged_whole_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr(talos, "maintenance", broken)
    with structlog.testing.capture_logs() as lines:
        found = await Prober(1).probe(Endpoint("192.0.2.1"))
    assert isinstance(found, Nobody)
    assert found.outcome is Outcome.STRANGE
    assert [line["address"] for line in lines] == ["192.0.2.1:50000"]
    assert lines[0]["exc_info"]


async def test_no_more_than_the_limit_are_asked_at_once() -> None:
    address = f"{boxes.fresh_subnet()}.1"
    now = most = 0

    async def count(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            await boxes.silence(reader, _)
        finally:
            now -= 1

    async with boxes.thing_at(address, count):
        prober = Prober(0.2, in_flight_max=3)
        await asyncio.gather(*(prober.probe(Endpoint(address)) for _ in range(9)))
    assert most == 3


def test_an_address_is_named_bare_on_the_usual_port_only() -> None:
    assert name_of(Endpoint("192.0.2.1")) == "192.0.2.1"
    assert name_of(Endpoint("2001:db8::1")) == "2001:db8::1"
    assert name_of(Endpoint("192.0.2.1", 50001)) == "192.0.2.1:50001"
    assert name_of(Endpoint("2001:db8::1", 50001)) == "[2001:db8::1]:50001"


def test_each_odd_address_is_told_once_for_as_long_as_it_stays_so() -> None:
    odd, other = Nobody(Outcome.STRANGE, "no TLS"), Nobody(Outcome.GONE, "silent")
    with structlog.testing.capture_logs() as lines:
        strangers = Strangers()
        for sweep in (1, 2, 3):
            strangers.tell("a", odd, sweep=sweep)
            strangers.tell("a", odd, sweep=sweep)
            strangers.end_sweep(sweep)
        assert len(lines) == 1
        strangers.tell("a", other, sweep=4)
        strangers.end_sweep(4)
        assert len(lines) == 2
        strangers.end_sweep(5)
        strangers.tell("a", other, sweep=6)
    assert [(line["address"], line["outcome"]) for line in lines] == [("a", "strange"), ("a", "gone"), ("a", "gone")]


def test_a_range_full_of_odd_things_does_not_fill_memory() -> None:
    strangers = Strangers()
    with structlog.testing.capture_logs() as lines:
        for number in range(probe.STRANGERS_MAX + 100):
            strangers.tell(str(number), Nobody(Outcome.STRANGE, "x" * 5000), sweep=1)
    assert len(lines) == probe.STRANGERS_MAX
    assert max(len(line["why"]) for line in lines) <= 300
