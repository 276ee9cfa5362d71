"""Which machine is next: what wakes one, that nobody works on it twice, and when it is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from libs import kube
from libs.machine import Condition, TalosMachine
from services.machine_reconciler.loop import Loop
from services.machine_reconciler.machines import Machines
from services.machine_reconciler.memory import Memory
from services.machine_reconciler.nodes import Nodes
from services.machine_reconciler.status import StartOver
from services.machine_reconciler.steps import Again
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, PIN, machine
from tests.services.machine_reconciler.fakes import node

REPROBE = 0.1


class FakeRounds:
    """Rounds that only tell that they were run."""

    def __init__(self) -> None:
        self.ran: list[TalosMachine] = []
        self.hurried: list[bool] = []
        self.ends: list[Again | Exception] = []
        self.takes: Callable[[Memory], object] = lambda _memory: asyncio.sleep(0)
        self.at_once = 0
        self.at_once_max = 0

    async def run(self, machine: TalosMachine, memory: Memory) -> Again:
        memory.begin()
        self.ran.append(machine)
        self.hurried.append(memory.hurry)
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            await self.takes(memory)  # type: ignore[misc] # whatever it is, it is awaited
        finally:
            self.at_once -= 1
        end = self.ends.pop(0) if self.ends else Again.REPROBE
        if isinstance(end, Exception):
            raise end
        return end

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.ran) < count:
                await asyncio.sleep(0.002)


@pytest.fixture
def rounds() -> FakeRounds:
    return FakeRounds()


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def moves() -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def loop(rounds: FakeRounds, nodes: Nodes, moves: list[tuple[str, str]]) -> AsyncIterator[Loop]:
    loop = Loop(
        rounds,
        Machines(),
        nodes,
        reprobe_seconds=3600,
        moved=lambda a, b: moves.append((a.metadata.name, b.status.observed_endpoint)),
    )
    running = asyncio.ensure_future(loop.run())
    yield loop
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def version(machine: TalosMachine, number: int, **changes: object) -> TalosMachine:
    metadata = msgspec.structs.replace(machine.metadata, resource_version=str(number))
    return msgspec.structs.replace(machine, metadata=metadata, **changes)


SENT = machine(sent_to=PIN, hostname="one")
READY = version(
    SENT,
    8,
    status=msgspec.structs.replace(
        SENT.status, conditions=(Condition(type="Ready", status="True", reason="Converged"),)
    ),
)


async def calm() -> None:
    """Give everything that is due at once the time to happen."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_new_machine_is_looked_at_and_again_after_the_period(rounds: FakeRounds, nodes: Nodes) -> None:
    loop = Loop(rounds, Machines(), nodes, reprobe_seconds=REPROBE)
    running = asyncio.ensure_future(loop.run())
    began = asyncio.get_running_loop().time()
    loop.machine_changed(None, SENT)
    await rounds.until(3)
    assert 2 * REPROBE * 0.79 <= asyncio.get_running_loop().time() - began <= 2 * REPROBE + 0.2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_our_own_writes_wake_nobody(loop: Loop, rounds: FakeRounds) -> None:
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.machine_changed(SENT, READY)
    await calm()
    assert len(rounds.ran) == 1


async def test_an_edited_spec_and_a_recorded_address_wake_at_once(
    loop: Loop, rounds: FakeRounds, moves: list[tuple[str, str]]
) -> None:
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    edited = version(SENT, 8, spec=msgspec.structs.replace(SENT.spec, approved=False))
    loop.machine_changed(SENT, edited)
    await rounds.until(2)
    moved = version(
        edited,
        9,
        status=msgspec.structs.replace(edited.status, observed_endpoint=ELSEWHERE, observed_endpoint_for=HERE),
    )
    loop.machine_changed(edited, moved)
    await rounds.until(3)
    assert rounds.ran[-1].status.observed_endpoint == ELSEWHERE
    assert moves == [("one", ELSEWHERE)]


async def test_an_edit_breaks_off_what_is_being_found_out(loop: Loop, rounds: FakeRounds) -> None:
    rounds.takes = lambda memory: memory.unless_interrupted(asyncio.sleep(60))
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.machine_changed(SENT, version(SENT, 8, spec=msgspec.structs.replace(SENT.spec, endpoint=ELSEWHERE)))
    async with asyncio.timeout(1):
        await rounds.until(2)


async def test_a_flood_of_news_does_not_keep_a_machine_from_being_read(loop: Loop, rounds: FakeRounds) -> None:
    ended = 0

    async def takes(memory: Memory) -> None:
        nonlocal ended
        await memory.unless_interrupted(asyncio.sleep(0.02))
        ended += 1

    rounds.takes = takes
    loop.machine_changed(None, SENT)
    async with asyncio.timeout(30):
        number = 0
        while ended < 3:
            number += 1
            loop.wake(SENT.key, news=number)
            await asyncio.sleep(0.001)


async def test_what_strangers_say_breaks_nothing_off(loop: Loop, rounds: FakeRounds) -> None:
    rounds.takes = lambda memory: memory.unless_interrupted(asyncio.sleep(0.05))
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.look_at(SENT.key)
    loop.look_at(("nodetrail", "unknown"))
    await calm()
    assert len(rounds.ran) == 1
    await rounds.until(2)
    assert rounds.hurried == [False, False]


async def test_a_machine_is_worked_on_by_one_worker_at_a_time(loop: Loop, rounds: FakeRounds) -> None:
    rounds.takes = lambda _memory: asyncio.sleep(0.01)
    loop.machine_changed(None, SENT)
    old = SENT
    for number in range(8, 12):
        new = version(old, number, spec=msgspec.structs.replace(old.spec, hostname=f"h{number}"))
        loop.machine_changed(old, new)
        old = new
        await asyncio.sleep(0.005)
    await rounds.until(2)
    assert rounds.at_once_max == 1
    await asyncio.sleep(0.05)
    assert rounds.ran[-1].spec.hostname == "h11"


async def test_a_node_elsewhere_wakes_its_machine_in_a_hurry_and_once(loop: Loop, rounds: FakeRounds) -> None:
    loop.machine_changed(None, READY)
    await rounds.until(1)
    loop.node_changed(None, node("one", ELSEWHERE))
    await rounds.until(2)
    assert rounds.hurried == [False, True]
    loop.node_seen(node("one", ELSEWHERE))
    await calm()
    assert len(rounds.ran) == 2, "the same news by another way"


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(node("one", HERE), id="where it is dialled"),
        pytest.param(node("one", ELSEWHERE, HERE), id="there among others"),
        pytest.param(node("one"), id="an empty list"),
        pytest.param(node("two", ELSEWHERE), id="somebody else's"),
    ],
)
async def test_a_node_that_says_nothing_new_wakes_nobody(loop: Loop, rounds: FakeRounds, seen: kube.Node) -> None:
    loop.machine_changed(None, READY)
    await rounds.until(1)
    loop.node_changed(None, seen)
    await calm()
    assert len(rounds.ran) == 1


async def test_a_heartbeat_or_another_order_is_no_news(loop: Loop, rounds: FakeRounds) -> None:
    before, after = node("one", ELSEWHERE, "10.0.0.3"), node("one", "10.0.0.3", ELSEWHERE)
    loop.node_changed(None, before)
    loop.machine_changed(None, READY)
    await rounds.until(1)
    loop.node_changed(before, after)
    await calm()
    assert len(rounds.ran) == 1


async def test_a_node_is_known_by_its_uuid_too(loop: Loop, rounds: FakeRounds) -> None:
    loop.machine_changed(None, READY)
    await rounds.until(1)
    loop.node_changed(None, node("renamed", ELSEWHERE, uuid=READY.spec.identity.uuid.upper()))
    await rounds.until(2)


async def test_a_machine_that_was_never_sent_follows_no_node(loop: Loop, rounds: FakeRounds) -> None:
    loop.machine_changed(None, machine(hostname="one"))
    await rounds.until(1)
    loop.node_changed(None, node("one", ELSEWHERE))
    await calm()
    assert len(rounds.ran) == 1


async def test_a_lost_machine_is_looked_at_when_its_node_appears_where_it_is_dialled(
    loop: Loop, rounds: FakeRounds
) -> None:
    rounds.ends = [Again.BACKOFF]
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.node_changed(None, node("one", HERE))
    await rounds.until(2)


async def test_a_round_that_no_longer_holds_begins_again_soon(loop: Loop, rounds: FakeRounds) -> None:
    rounds.ends = [StartOver(), StartOver()]
    loop.machine_changed(None, SENT)
    async with asyncio.timeout(1):
        await rounds.until(3)


@pytest.mark.parametrize("error", [kube.Unavailable("away"), kube.Invalid("no"), RuntimeError("a bug")])
async def test_a_failed_round_is_tried_again_and_stops_nothing(
    loop: Loop, rounds: FakeRounds, error: Exception
) -> None:
    rounds.ends = [error]
    loop.machine_changed(None, SENT)
    async with asyncio.timeout(3):
        await rounds.until(2)


async def test_a_deleted_machine_is_forgotten_and_its_round_broken_off(loop: Loop, rounds: FakeRounds) -> None:
    broken_off = asyncio.Event()

    async def wait(memory: Memory) -> None:
        try:
            await memory.unless_interrupted(asyncio.sleep(60))
        finally:
            broken_off.set()

    rounds.takes = wait
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.machine_changed(SENT, None)
    async with asyncio.timeout(1):
        await broken_off.wait()
    await calm()
    assert len(rounds.ran) == 1
    assert len(loop._memories) == 0
    assert len(loop._queue) == 0


async def test_a_namesake_begins_with_an_empty_memory(loop: Loop, rounds: FakeRounds) -> None:
    loop.machine_changed(None, SENT)
    await rounds.until(1)
    loop.worked_at(SENT.key, [ELSEWHERE])
    loop.machine_changed(SENT, None)
    namesake = msgspec.structs.replace(SENT, metadata=msgspec.structs.replace(SENT.metadata, uid="u-2"))
    loop.machine_changed(None, namesake)
    await rounds.until(2)
    assert loop._memories[SENT.key].worked == ()


async def test_a_machine_about_to_go_is_left_alone(loop: Loop, rounds: FakeRounds) -> None:
    from tests.services.machine_reconciler.fakes import MOMENT

    going = msgspec.structs.replace(SENT, metadata=msgspec.structs.replace(SENT.metadata, deletion_timestamp=MOMENT))
    loop.machine_changed(None, going)
    await calm()
    assert rounds.ran == []
