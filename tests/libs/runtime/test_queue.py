import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.runtime import KeyQueue
from tests.libs.runtime import virtual

KEYS = st.sampled_from("abc")
DELAYS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.just(0.0)),
    st.tuples(st.just("after"), KEYS, DELAYS),
    st.tuples(st.just("forget"), KEYS, st.just(0.0)),
    st.tuples(st.just("sleep"), st.just(""), DELAYS),
)


@given(st.lists(STEPS, max_size=40), st.integers(1, 4), st.floats(0.1, 2.0))
def test_every_wish_is_met_in_time_and_no_key_is_worked_on_twice_at_once(
    steps: list[tuple[str, str, float]], workers: int, work_seconds: float
) -> None:
    """Compared with a model: per key the earliest wish that is not met yet."""

    async def scenario() -> None:
        queue: KeyQueue[str] = KeyQueue()
        loop = asyncio.get_running_loop()
        wished: dict[str, float] = {}
        working: set[str] = set()
        runs: dict[str, int] = defaultdict(int)

        async def worker() -> None:
            while True:
                key = await queue.get()
                assert key not in working
                assert wished.pop(key) <= loop.time()  # never early, and never unasked
                working.add(key)
                runs[key] += 1
                await asyncio.sleep(work_seconds)
                working.remove(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker()) for _ in range(workers)]
            for step, key, seconds in steps:
                if step == "sleep":
                    await asyncio.sleep(seconds)
                elif step == "forget":
                    queue.forget(key)
                    wished.pop(key, None)
                else:
                    due = loop.time() + seconds if step == "after" else loop.time()
                    wished[key] = min(wished.get(key, due), due)
                    queue.add(key) if step == "add" else queue.add_after(key, seconds)
                assert len(queue) == len(wished)
            await asyncio.sleep(10 + work_seconds * (len(steps) + 2))
            assert not wished  # nothing is lost
            assert not len(queue)
            for task in tasks:
                task.cancel()

    virtual.run(scenario())


def test_news_during_the_work_means_work_again_afterwards() -> None:
    async def scenario() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert await queue.get() == "b"
        waiter = asyncio.ensure_future(queue.get())
        await asyncio.sleep(1)
        assert not waiter.done()
        queue.done("a")
        assert await waiter == "a"
        queue.done("a")
        assert len(queue) == 0

    virtual.run(scenario())


def test_the_earliest_wish_wins() -> None:
    async def scenario() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add_after("a", 120)
        queue.add_after("a", 5)
        queue.add_after("a", 60)
        await queue.get()
        assert asyncio.get_running_loop().time() == pytest.approx(5)
        queue.done("a")
        queue.add_after("a", 50)
        queue.add("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0  # the wish for later was met by the earlier one

    virtual.run(scenario())


def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    async def scenario() -> None:
        queue: KeyQueue[str] = KeyQueue()
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()  # woken for the key already, and cancelled before it could take it
        assert await second == "a"

    virtual.run(scenario())


def test_wishes_that_are_moved_again_and_again_take_no_memory() -> None:
    async def scenario() -> None:
        queue: KeyQueue[int] = KeyQueue()
        for round_ in range(100):
            for key in range(10):
                queue.add_after(key, 10_000 - round_)
        assert len(queue) == 10
        assert len(queue._later) < 120

    virtual.run(scenario())
