"""The outbox: nothing that still holds is lost while NATS is away, and what no longer holds is not kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from libs.bus import EventTooLarge
from libs.events import NodeSighted
from services.discovery import outbox
from services.discovery.outbox import News, Outbox
from tests.services.discovery.boxes import until


def event(address: str) -> NodeSighted:
    return NodeSighted(site="s", address=address, common_name="n", fingerprint="f")


@dataclass
class Nats:
    """A bus that records, and that can be away."""

    connected: bool = True
    published: list[tuple[str, str, str, float | None]] = field(default_factory=list)

    async def publish(self, event: News, *, subject: str, message_id: str, made_at: float | None = None) -> None:
        if subject == "large":
            raise EventTooLarge("70000 bytes")
        assert isinstance(event, NodeSighted)
        self.published.append((subject, event.address, message_id, made_at))


@asynccontextmanager
async def running(box: Outbox) -> AsyncIterator[None]:
    task = asyncio.ensure_future(box.run())
    yield
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_each_subjects_newest_is_published_when_nats_is_back() -> None:
    nats = Nats(connected=False)
    box = Outbox(nats)
    async with running(box):
        for number in range(50):
            box.put("one", event(str(number)), message_id=f"one/{number}", made_at=number)
            await asyncio.sleep(0)
        box.put("two", event("x"), message_id="two/1", made_at=7)
        assert len(box) == 2
        nats.connected = True
        await until(lambda: not len(box) and not box._queue._working)
    assert sorted(nats.published) == [("one", "49", "one/49", 49), ("two", "x", "two/1", 7)]


async def test_news_that_comes_in_the_middle_of_a_publish_is_published_after_it() -> None:
    box = Outbox(nats := Nats())
    first, go_on = asyncio.Event(), asyncio.Event()

    async def publish(event: News, *, subject: str, message_id: str, made_at: float | None = None) -> None:
        first.set()
        await go_on.wait()
        await Nats.publish(nats, event, subject=subject, message_id=message_id, made_at=made_at)

    nats.publish = publish  # type: ignore[method-assign] # slow, this once
    async with running(box):
        box.put("one", event("a"), message_id="1", made_at=1)
        await first.wait()
        box.put("one", event("b"), message_id="2", made_at=2)
        go_on.set()
        await until(lambda: not len(box) and not box._queue._working)
    assert [published[1] for published in nats.published] == ["a", "b"]


async def test_what_can_never_be_published_is_dropped_and_the_next_goes_on() -> None:
    box = Outbox(nats := Nats())
    async with running(box):
        box.put("large", event("a"), message_id="1", made_at=1)
        await until(lambda: not len(box) and not box._queue._working)
        box.put("one", event("b"), message_id="2", made_at=2)
        await until(lambda: not len(box) and not box._queue._working)
    assert [published[0] for published in nats.published] == ["one"]


async def test_memory_is_bounded_while_nats_is_away() -> None:
    box = Outbox(Nats(connected=False))
    kept = [box.put(str(number), event("a"), message_id="1", made_at=1) for number in range(outbox.SUBJECTS_MAX + 5)]
    assert kept.count(False) == 5
    assert len(box) == outbox.SUBJECTS_MAX
    assert box.put("0", event("b"), message_id="2", made_at=2), "those that wait already take the newest"
