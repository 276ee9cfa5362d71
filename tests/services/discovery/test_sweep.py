"""The TCP stage: every listener is found, whatever the rest does, within its rate and its bounds."""

from __future__ import annotations

import itertools
import random
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from services.discovery.ranges import Target, parse_ranges
from services.discovery.sweep import RETRIES_WAITING_MAX, Tally, TcpSweep
from tests.services.discovery.boxes import fresh_subnet


def sweep(
    targets: list[Target] | Iterator[Target],
    *,
    rate: float = 1e6,
    timeout_seconds: float = 1.0,
    window: int = 2000,
    has_room: Callable[[], bool] = lambda: True,
) -> tuple[Tally, list[str]]:
    found: list[str] = []
    run = TcpSweep(
        found=lambda target: found.append(target.address[0]),
        rate=rate,
        timeout_seconds=timeout_seconds,
        window=window,
        has_room=has_room,
    )
    return run.run(targets), found


@contextmanager
def listening(*addresses: str) -> Iterator[None]:
    with ExitStack() as stack:
        for address in addresses:
            stack.enter_context(socket.create_server((address, 50000), backlog=16))
        yield


@contextmanager
def full(address: str) -> Iterator[socket.socket]:
    """A listener whose queue is full, so that the kernel drops what knocks, as a firewall does."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((address, 50000), backlog=0))
        for _ in range(4):
            knock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            knock.connect_ex((address, 50000))
        yield server


def test_every_listener_is_found_among_those_that_refuse() -> None:
    subnet = fresh_subnet()
    open_ = {f"{subnet}.{n}" for n in random.Random(7).sample(range(256), 40)}
    with listening(*open_):
        tally, found = sweep(parse_ranges([f"{subnet}.0/24"]).targets())
    assert set(found) == open_
    assert len(found) == len(open_)
    assert (tally.swept, tally.opened, tally.refused, tally.silent) == (256, 40, 216, 0)


def test_a_listener_is_found_whatever_the_window() -> None:
    subnet = fresh_subnet()
    with listening(f"{subnet}.1", f"{subnet}.254"):
        assert sorted(sweep(parse_ranges([f"{subnet}.0/24"]).targets(), window=1)[1]) == [
            f"{subnet}.1",
            f"{subnet}.254",
        ]


def test_silence_is_tried_twice_and_then_given_up() -> None:
    subnet = fresh_subnet()
    with full(f"{subnet}.1"), listening(f"{subnet}.2"):
        tally, found = sweep(parse_ranges([f"{subnet}.0/30"]).targets(), timeout_seconds=0.3)
    assert found == [f"{subnet}.2"]
    assert (tally.silent, tally.refused) == (1, 2)
    assert 0.6 <= tally.seconds < 3


def test_an_address_that_lost_one_packet_is_found_at_the_second_try() -> None:
    address = f"{fresh_subnet()}.1"
    with full(address) as server:

        def make_room() -> None:
            server.settimeout(5)
            for _ in range(2):
                server.accept()[0].close()

        # The first packet is dropped; there is room again before the second try, which is before the kernel's own.
        room = threading.Timer(0.15, make_room)
        room.start()
        tally, found = sweep(parse_ranges([address]).targets(), timeout_seconds=0.4)
        room.join()
    assert found == [address]
    assert tally.silent == 0


def test_the_rate_is_kept() -> None:
    tally, _ = sweep(parse_ranges([f"{fresh_subnet()}.0/25"]).targets(), rate=200)
    assert 0.5 < tally.seconds < 3, "128 addresses at 200 a second, some 10 of them at once"


def test_nothing_new_is_dialled_while_there_is_no_room() -> None:
    subnet = fresh_subnet()
    opened: list[str] = []
    room = threading.Event()
    run = TcpSweep(
        found=lambda target: opened.append(target.address[0]),
        rate=1e6,
        timeout_seconds=1,
        window=1,
        has_room=lambda: room.is_set() or not opened,
    )
    with listening(*(f"{subnet}.{n}" for n in range(8))):
        worker = threading.Thread(target=run.run, args=(parse_ranges([f"{subnet}.0/29"]).targets(),))
        worker.start()
        deadline = time.monotonic() + 5
        while not opened:
            assert time.monotonic() < deadline
        worker.join(0.3)
        assert len(opened) == 1
        room.set()
        worker.join(5)
    assert len(opened) == 8


def test_a_stop_is_heeded_soon_though_the_range_is_endless() -> None:
    address = f"{fresh_subnet()}.1"
    endless = itertools.repeat(Target(socket.AF_INET, (address, 50000)))
    run = TcpSweep(found=lambda _: None, rate=1000, timeout_seconds=1, window=100)
    worker = threading.Thread(target=run.run, args=(endless,))
    worker.start()
    worker.join(0.2)
    assert worker.is_alive()
    run.stop()
    worker.join(2)
    assert not worker.is_alive()
    assert run.tally.swept < 1000


def test_addresses_that_cannot_be_dialled_are_passed_over() -> None:
    subnet = fresh_subnet()
    strange = [
        Target(socket.AF_INET6, ("2001:db8::1", 50000)),
        Target(socket.AF_INET, ("255.255.255.255", 50000)),
        Target(socket.AF_INET, (f"{subnet}.1", 50000)),
    ]
    with listening(f"{subnet}.1"):
        tally, found = sweep(strange, timeout_seconds=0.3)
    assert found == [f"{subnet}.1"]
    assert tally.swept == tally.opened + tally.refused + tally.silent == 3


@pytest.fixture
def few_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 12, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_lack_of_files_slows_it_down_and_loses_nothing(few_files: None) -> None:
    address = f"{fresh_subnet()}.1"
    with full(address):
        # More silent addresses at once than there are files for.
        targets = [Target(socket.AF_INET, (address, 50000))] * 20
        tally, found = sweep(iter(targets), timeout_seconds=0.1)
    assert found == []
    assert (tally.swept, tally.silent) == (20, 20)


def test_second_tries_do_not_pile_up() -> None:
    address = f"{fresh_subnet()}.1"
    waiting = 0
    with full(address):
        run = TcpSweep(found=lambda _: None, rate=1e6, timeout_seconds=0.05, window=500)

        def targets() -> Iterator[Target]:
            nonlocal waiting
            for _ in range(RETRIES_WAITING_MAX + 3000):
                waiting = max(waiting, len(run._waiting))
                yield Target(socket.AF_INET, (address, 50000))

        tally = run.run(targets())
    assert waiting == RETRIES_WAITING_MAX - 1, "past that, second tries go before new addresses"
    assert tally.silent == tally.swept == RETRIES_WAITING_MAX + 3000
