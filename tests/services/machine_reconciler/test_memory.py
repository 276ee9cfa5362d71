"""What is remembered between rounds: bounded, and told each thing once."""

from __future__ import annotations

import asyncio

import pytest

from libs import runtime
from services.machine_reconciler.memory import STARTS_OVER_MAX, WORKED_MAX, Interrupted, Memory


@pytest.fixture
def memory() -> Memory:
    return Memory("u-1", runtime.Backoff())


def test_the_latest_addresses_come_first_and_are_bounded(memory: Memory) -> None:
    for number in range(20):
        memory.remember(f"10.0.0.{number}")
    memory.remember("10.0.0.15")
    assert memory.worked[:2] == ("10.0.0.15", "10.0.0.19")
    assert len(memory.worked) == WORKED_MAX


def test_the_same_news_is_told_once(memory: Memory) -> None:
    assert memory.tell("a")
    assert not memory.tell("a")
    assert memory.tell("b")
    assert memory.tell("a"), "there and back again is news"


def test_hurry_lasts_for_one_round_and_a_round_that_failed_passes_it_on(memory: Memory) -> None:
    memory.tell("a")
    memory.begin()
    assert memory.hurry
    memory.fail()
    memory.begin()
    assert memory.hurry
    memory.succeed()
    memory.begin()
    assert not memory.hurry


def test_hurry_that_arrives_during_a_round_is_the_next_ones(memory: Memory) -> None:
    memory.begin()
    memory.tell("a")
    memory.succeed()
    memory.begin()
    assert memory.hurry


async def test_news_breaks_off_what_is_being_found_out(memory: Memory) -> None:
    ended = asyncio.Event()

    async def ask() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    memory.begin()
    asyncio.get_running_loop().call_later(0.01, memory.tell, "a")
    with pytest.raises(Interrupted):
        await memory.unless_interrupted(ask())
    assert ended.is_set()


async def test_a_round_that_was_broken_off_is_followed_by_one_that_is_not(memory: Memory) -> None:
    """However much is said of a machine, it is looked at."""
    memory.calm()
    memory.begin()
    for number in range(5):
        asyncio.get_running_loop().call_later(0.001 * number, memory.tell, number)
    assert await memory.unless_interrupted(asyncio.sleep(0.02, "found")) == "found"
    memory.succeed()
    memory.begin()
    assert memory.hurry, "what was said is the next round's news"
    asyncio.get_running_loop().call_later(0.001, memory.tell, "later")
    with pytest.raises(Interrupted):
        await memory.unless_interrupted(asyncio.sleep(60))


async def test_what_was_found_out_is_returned_and_its_failure_raised(memory: Memory) -> None:
    async def fail() -> None:
        raise ValueError("x")

    assert await memory.unless_interrupted(asyncio.sleep(0, "found")) == "found"
    with pytest.raises(ValueError, match="x"):
        await memory.unless_interrupted(fail())


def test_starting_over_slows_down(memory: Memory) -> None:
    assert [memory.starts_over() for _ in range(STARTS_OVER_MAX + 1)] == [True] * STARTS_OVER_MAX + [False]
    memory.succeed()
    assert memory.starts_over()
