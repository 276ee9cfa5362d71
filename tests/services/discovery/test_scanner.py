"""Whole sweeps over real TLS: what is published of a site whose boxes come, move, reboot, double and misbehave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from prometheus_client import CollectorRegistry

from libs import bus, runtime
from libs import identity as identities
from libs.embedded.nats_server import NatsServer
from libs.embedded.service import ServiceProcess
from libs.events import EndpointObserved, NodeSighted, subjects
from libs.identity import Identity
from libs.machine import Source
from services.discovery import loop
from services.discovery.loop import Scanner
from services.discovery.metrics import Metrics
from services.discovery.outbox import News, Outbox
from services.discovery.settings import Settings
from tests.services.discovery import boxes


class Paper(Outbox):
    """An outbox that keeps everything that was ever put, with its message id."""

    def __init__(self) -> None:
        self.letters: list[tuple[str, News, str, float]] = []

    def put(self, subject: str, event: News, *, message_id: str, made_at: float) -> bool:
        self.letters.append((subject, event, message_id, made_at))
        return True


class Scan:
    """A scanner over one subnet, and what it said."""

    def __init__(self, subnet: str, *, ranges: str = "", timeout: float = 1.0) -> None:
        self.paper = Paper()
        self.registry = CollectorRegistry()
        settings = Settings(
            ranges=tuple((ranges or f"{subnet}.0/27").split(",")),
            site="lab",
            sweep_rate=100_000,
            probe_timeout_seconds=timeout,
        )
        self.scanner = Scanner(settings, self.paper, Metrics(self.registry))

    async def sweep(self) -> list[EndpointObserved]:
        """Sweep once, wait until everything is shown, return the pictures published meanwhile."""
        before = len(self.paper.letters)
        await self.scanner.sweep_once()
        await boxes.until(lambda: not len(self.scanner._changed) and not self.scanner._changed._working)
        return [event for _, event, _, _ in self.paper.letters[before:] if isinstance(event, EndpointObserved)]

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def scanning(subnet: str, **options: object) -> AsyncIterator[Scan]:
    scan = Scan(subnet, **options)  # type: ignore[arg-type] # handed on
    showing = asyncio.ensure_future(scan.scanner.show_for_ever())
    yield scan
    assert not showing.done()
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)


def addresses(event: EndpointObserved) -> dict[str, str]:
    return {seen.address: seen.fingerprint for seen in event.addresses}


async def test_one_box_is_published_at_once_and_at_the_end_of_each_sweep() -> None:
    subnet, who = boxes.fresh_subnet(), boxes.identity(1)
    async with boxes.box_at(f"{subnet}.3", who=who) as port, scanning(subnet) as scan:
        first = await scan.sweep()
        second = await scan.sweep()
        assert len(second) == 1
        event = second[0]
        assert addresses(event) == {f"{subnet}.3": port.fingerprint}
        assert (event.source, event.site, event.identity) == (Source.DISCOVERY, "lab", who)
        assert [(e.sweep, e.sweeps_agreeing) for e in (first[-1], event)] == [(1, 1), (2, 2)]
        subject = subjects.observed_discovery("lab", identities.key(who))
        assert {letter[0] for letter in scan.paper.letters} == {subject}
        ids = [letter[2] for letter in scan.paper.letters]
        assert len(set(ids)) == len(ids)
        assert all(one.startswith(subject + "/") for one in ids)
        assert all(time.monotonic() - 10 < letter[3] <= time.monotonic() for letter in scan.paper.letters)


async def test_message_ids_of_another_run_are_others() -> None:
    subnet, who = boxes.fresh_subnet(), boxes.identity(1)
    async with boxes.box_at(f"{subnet}.3", who=who), scanning(subnet) as one, scanning(subnet) as other:
        await one.sweep()
        await other.sweep()
    assert not {letter[2] for letter in one.paper.letters} & {letter[2] for letter in other.paper.letters}


async def test_a_change_is_published_before_the_sweep_ends() -> None:
    subnet = boxes.fresh_subnet()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(boxes.box_at(f"{subnet}.1", who=boxes.identity(1)))
        await stack.enter_async_context(boxes.thing_at(f"{subnet}.2", boxes.silence))
        scan = await stack.enter_async_context(scanning(subnet))
        sweep = asyncio.ensure_future(scan.scanner.sweep_once())
        await boxes.until(lambda: bool(scan.paper.letters))
        assert not sweep.done()
        await sweep


async def test_a_box_with_two_addresses_is_one_picture() -> None:
    subnet = boxes.fresh_subnet()
    async with boxes.box_at(f"{subnet}.1", f"{subnet}.2", who=boxes.identity(1)) as port, scanning(subnet) as scan:
        last = (await scan.sweep())[-1]
        assert addresses(last) == {f"{subnet}.1": port.fingerprint, f"{subnet}.2": port.fingerprint}


async def test_a_box_that_moved_with_a_new_leaf_is_published_at_its_new_address_alone() -> None:
    subnet = boxes.fresh_subnet()
    async with boxes.box_at(f"{subnet}.1", who=boxes.identity(1)) as port, scanning(subnet) as scan:
        await scan.sweep()
        await port.renew()
        port.move(f"{subnet}.9")
        for event in await scan.sweep():
            assert addresses(event) == {f"{subnet}.9": port.fingerprint}, "never seen as its own twin"
            assert event.sweeps_agreeing == 2


async def test_an_address_that_somebody_else_took_is_gone_before_the_sweep_ends() -> None:
    subnet, who = boxes.fresh_subnet(), boxes.identity(1)
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(boxes.box_at(f"{subnet}.1", who=who))
        scan = await stack.enter_async_context(scanning(subnet))
        await scan.sweep()
        here.box.become(boxes.identity(2))
        there = await stack.enter_async_context(boxes.box_at(f"{subnet}.9", who=who))
        await stack.enter_async_context(boxes.thing_at(f"{subnet}.5", boxes.silence))  # the sweep takes a second
        pictures = [event for event in await scan.sweep() if event.identity == who]
        assert len(pictures) == 2, "one at once, one at the end"
        assert [addresses(event) for event in pictures] == 2 * [{f"{subnet}.9": there.fingerprint}]


async def test_a_new_leaf_at_two_addresses_is_never_two_certificates() -> None:
    subnet = boxes.fresh_subnet()
    async with boxes.box_at(f"{subnet}.1", f"{subnet}.2", who=boxes.identity(1)) as port, scanning(subnet) as scan:
        await scan.sweep()
        await port.renew()
        for event in await scan.sweep():
            assert set(addresses(event).values()) == {port.fingerprint}


async def test_twins_are_published_with_both_certificates_after_each_was_dialled_again() -> None:
    subnet, who = boxes.fresh_subnet(), boxes.identity(1)
    async with (
        boxes.box_at(f"{subnet}.1", who=who) as one,
        boxes.box_at(f"{subnet}.2", who=who) as two,
        scanning(subnet) as scan,
    ):
        last = (await scan.sweep())[-1]
        assert addresses(last) == {f"{subnet}.1": one.fingerprint, f"{subnet}.2": two.fingerprint}
        assert min(len(one.box.became), len(two.box.became)) >= 2
        two.move()
        last = (await scan.sweep())[-1]
        assert addresses(last) == {f"{subnet}.1": one.fingerprint}


async def test_a_box_that_vanished_is_published_without_addresses_once() -> None:
    subnet = boxes.fresh_subnet()
    async with boxes.box_at(f"{subnet}.1", who=boxes.identity(1)) as port, scanning(subnet, timeout=0.3) as scan:
        await scan.sweep()
        port.move()
        (gone,) = await scan.sweep()
        assert (gone.addresses, gone.identity) == ((), boxes.identity(1))
        assert await scan.sweep() == []


async def test_another_box_at_the_same_address_takes_it_over() -> None:
    subnet = boxes.fresh_subnet()
    async with boxes.box_at(f"{subnet}.1", who=boxes.identity(1)) as port, scanning(subnet) as scan:
        await scan.sweep()
        port.box.become(boxes.identity(2))
        newest: dict[Identity | None, EndpointObserved] = {event.identity: event for event in await scan.sweep()}
        assert newest[boxes.identity(1)].addresses == ()
        assert list(addresses(newest[boxes.identity(2)])) == [f"{subnet}.1"]


async def test_a_configured_node_is_sighted_in_each_sweep() -> None:
    subnet = boxes.fresh_subnet()
    async with (
        boxes.box_at(f"{subnet}.1", who=boxes.identity(1), configured_as="cp-1.example.com") as port,
        scanning(subnet) as scan,
    ):
        assert await scan.sweep() == []
        await scan.sweep()
        assert [(subject, event) for subject, event, _, _ in scan.paper.letters] == 2 * [
            (
                subjects.sighted("lab", "cp-1.example.com"),
                NodeSighted(
                    site="lab",
                    address=f"{subnet}.1",
                    common_name="cp-1.example.com",
                    fingerprint=port.fingerprint,
                ),
            )
        ]
        assert len({letter[2] for letter in scan.paper.letters}) == 2


async def test_another_port_is_kept_in_the_address() -> None:
    subnet = boxes.fresh_subnet()
    async with (
        boxes.box_at(f"{subnet}.1", who=boxes.identity(1), port=50123) as port,
        scanning(subnet, ranges=f"{subnet}.1:50123") as scan,
    ):
        assert addresses((await scan.sweep())[-1]) == {f"{subnet}.1:50123": port.fingerprint}


async def test_a_name_stands_for_what_it_resolves_to() -> None:
    async with (
        boxes.box_at("127.0.0.1", who=boxes.identity(1), port=50321),
        scanning("", ranges="localhost:50321,no-such-name.invalid:50321") as scan,
    ):
        with structlog.testing.capture_logs() as lines:
            assert list(addresses((await scan.sweep())[-1])) == ["127.0.0.1:50321"]
    assert [line["name"] for line in lines if line["event"] == "name not found"] == ["no-such-name.invalid"]


async def test_hostile_boxes_get_one_line_each_and_the_sweep_goes_on() -> None:
    subnet = boxes.fresh_subnet()
    things = {1: boxes.garbage, 2: boxes.silence, 3: boxes.hang_up, 4: boxes.endless}
    async with AsyncExitStack() as stack:
        for number, thing in things.items():
            await stack.enter_async_context(boxes.thing_at(f"{subnet}.{number}", thing))
        await stack.enter_async_context(boxes.box_at(f"{subnet}.5", who=boxes.identity(5)))
        scan = await stack.enter_async_context(scanning(subnet, timeout=3.0))
        with structlog.testing.capture_logs() as lines:
            for _ in range(2):
                assert list(addresses((await scan.sweep())[-1])) == [f"{subnet}.5"]
    odd = [line["address"] for line in lines if line["event"] == "not a usable node"]
    assert sorted(odd) == [f"{subnet}.{number}:50000" for number in things]
    assert scan.counted("nodetrail_discovery_probes_total", outcome="strange") == 2
    assert scan.counted("nodetrail_discovery_probes_total", outcome="gone") == 6
    assert scan.counted("nodetrail_discovery_probes_total", outcome="maintenance") == 2
    assert scan.counted("nodetrail_discovery_addresses_total", result="opened") == 10
    assert scan.counted("nodetrail_discovery_identities") == 1


async def test_a_cancelled_sweep_stops_its_thread() -> None:
    scan = Scan("", ranges="127.0.0.0/8")
    sweep = asyncio.ensure_future(scan.scanner.sweep_once())
    await asyncio.sleep(0.2)
    before = time.monotonic()
    sweep.cancel()
    await asyncio.gather(sweep, return_exceptions=True)
    assert sweep.cancelled()
    assert time.monotonic() - before < 1


async def test_the_service_publishes_to_nats_and_catches_up_after_an_outage(
    nats_server: NatsServer, tmp_path: object
) -> None:
    subnet, who = boxes.fresh_subnet(), boxes.identity(7)
    settings = {"ranges": f"{subnet}.0/28", "site": "lab", "sweep_seconds": 0.3, "nats_url": nats_server.url}
    service = ServiceProcess("discovery", settings, log_file=tmp_path / "discovery.log")  # type: ignore[operator]
    subject = subjects.observed_discovery("lab", identities.key(who))
    common = runtime.CommonSettings(nats_url=nats_server.url)
    async with (
        boxes.box_at(f"{subnet}.3", who=who) as port,
        bus.connect(common, name="test", health=runtime.Health()) as nats,
    ):
        await nats.ensure_streams()
        await asyncio.to_thread(service.start)
        await _published_at(nats, subject, f"{subnet}.3")
        await asyncio.to_thread(nats_server.stop)
        port.move(f"{subnet}.9")
        await asyncio.sleep(1.0)  # some sweeps see it there while NATS is away
        await asyncio.to_thread(nats_server.start)
        event = await _published_at(nats, subject, f"{subnet}.9")
        assert addresses(event) == {f"{subnet}.9": port.fingerprint}
        assert await asyncio.to_thread(service.stop) == 0


async def _published_at(nats: bus.Bus, subject: str, address: str) -> EndpointObserved:
    async with asyncio.timeout(20):
        while True:
            last = await nats.last(subjects.SIGHTINGS, subject)
            if last is not None and isinstance(last.event, EndpointObserved) and address in addresses(last.event):
                return last.event
            await asyncio.sleep(0.05)


def test_the_window_leaves_files_for_everything_else() -> None:
    assert loop.WINDOW_MIN <= loop.window(1000, 1) <= loop.WINDOW_MAX
