"""What a Node says about its addresses is published when it changes, and heartbeats are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from libs import bus, kube
from libs.events import EndpointObserved, Event
from libs.machine import Source
from services.node_watcher.watcher import Watcher


class FakePublisher:
    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.sent: list[tuple[str, str, EndpointObserved]] = []
        self.too_large = 0

    async def publish(self, event: Event, *, subject: str, message_id: str, made_at: float | None = None) -> None:
        assert isinstance(event, EndpointObserved)
        assert made_at is not None
        await self.open.wait()
        if self.too_large:
            self.too_large -= 1
            raise bus.EventTooLarge(subject)
        self.sent.append((subject, message_id, event))

    async def settled(self) -> list[tuple[str, str, EndpointObserved]]:
        for _ in range(20):
            await asyncio.sleep(0)
        return self.sent

    @property
    def addresses(self) -> list[set[str]]:
        return [{seen.address for seen in event.addresses} for _, _, event in self.sent]


def node(*addresses: str, version: str = "1", uid: str = "n-1", uuid: str = "U") -> kube.Node:
    listed = [kube.NodeAddress(type="InternalIP", address=address) for address in addresses]
    others = [
        kube.NodeAddress(type="Hostname", address="one"),
        kube.NodeAddress(type="ExternalIP", address="203.0.113.1"),
    ]
    return kube.Node(
        metadata=kube.Meta(name="one", uid=uid, resource_version=version),
        status=kube.NodeStatus(addresses=(*listed, *others), node_info=kube.NodeInfo(system_uuid=uuid)),
    )


@pytest.fixture
def publisher() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
async def watcher(publisher: FakePublisher) -> AsyncIterator[Watcher]:
    watcher = Watcher(publisher)
    running = asyncio.ensure_future(watcher.run())
    yield watcher
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


A, B = "10.0.0.1", "10.0.0.2"


async def test_a_node_is_published_once_after_a_start(watcher: Watcher, publisher: FakePublisher) -> None:
    watcher.node_changed(None, node(A, B, version="5"))
    [(subject, message_id, event)] = await publisher.settled()
    assert subject == "nodetrail.observed.node.one"
    assert message_id == "nodetrail.observed.node.one/n-1/5"
    assert event.source == Source.NODE
    assert [seen.address for seen in event.addresses] == [A, B]
    assert event.node is not None
    assert (event.node.name, event.node.uid, event.node.resource_version, event.node.system_uuid) == (
        "one",
        "n-1",
        "5",
        "U",
    )


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        pytest.param(node(A), node(A, version="2"), 0, id="heartbeat"),
        pytest.param(node(A, B), node(B, A, version="2"), 0, id="another order"),
        pytest.param(node(A), node(version="2"), 0, id="an empty list"),
        pytest.param(node(A), None, 0, id="deleted"),
        pytest.param(node(A), node(B, version="2"), 1, id="another address"),
        pytest.param(node(A), node(A, B, version="2"), 1, id="one more"),
        pytest.param(node(A), node(A, version="2", uuid="V"), 1, id="another box"),
        pytest.param(node(), node(A, version="2"), 1, id="the first address"),
        pytest.param(None, node(A, uid="n-2"), 1, id="made anew"),
        pytest.param(None, node(), 0, id="new without address"),
    ],
)
async def test_what_is_news(
    watcher: Watcher, publisher: FakePublisher, old: kube.Node | None, new: kube.Node | None, count: int
) -> None:
    watcher.node_changed(old, new)
    assert len(await publisher.settled()) == count


async def test_there_and_back_again_is_news_twice(watcher: Watcher, publisher: FakePublisher) -> None:
    for old, new in ((node(A), node(B, version="2")), (node(B, version="2"), node(A, version="3"))):
        watcher.node_changed(old, new)
        await publisher.settled()
    assert publisher.addresses == [{B}, {A}]
    assert len({message_id for _, message_id, _ in publisher.sent}) == 2


async def test_what_nats_has_not_taken_is_replaced_by_what_is_newer(watcher: Watcher, publisher: FakePublisher) -> None:
    publisher.open.clear()
    watcher.node_changed(None, node(A))
    await publisher.settled()
    watcher.node_changed(node(A), node(B, version="2"))
    watcher.node_changed(node(B, version="2"), node("10.0.0.3", version="3"))
    publisher.open.set()
    await publisher.settled()
    assert publisher.addresses == [{A}, {"10.0.0.3"}]


async def test_a_kubelet_that_writes_novels_does_not_silence_the_others(
    watcher: Watcher, publisher: FakePublisher
) -> None:
    watcher.node_changed(None, node(A, "1" * 70_000, uuid="U" * 70_000))
    await publisher.settled()
    [(_, _, event)] = publisher.sent
    assert event.node is not None
    assert (publisher.addresses, event.node.system_uuid) == ([{A}], "")


async def test_what_does_not_fit_into_an_event_is_left_out_and_the_next_is_published(
    watcher: Watcher, publisher: FakePublisher
) -> None:
    publisher.too_large = 1
    watcher.node_changed(None, node(A))
    await publisher.settled()
    watcher.node_changed(node(A), node(B, version="2"))
    await publisher.settled()
    assert publisher.addresses == [{B}]


async def test_a_null_list_is_an_empty_one(watcher: Watcher, publisher: FakePublisher) -> None:
    bare = msgspec.json.decode(b'{"metadata": {"name": "one"}, "status": {"addresses": null}}', type=kube.Node)
    watcher.node_changed(None, bare)
    assert await publisher.settled() == []
