"""Says once what each Node lists as its addresses, and again when that changes. Heartbeats are not news."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple, Protocol

import msgspec

from libs import bus, events, kube, runtime
from libs.events import EndpointObserved, NodeRef, SeenAddress, subjects
from libs.machine import Source

PUBLISHERS = 16
ADDRESSES_MAX = 64
"""More than any node has."""

_log = runtime.log("watcher")


class Publisher(Protocol):
    """The part of the bus that is used here."""

    async def publish(
        self, event: events.Event, *, subject: str, message_id: str, made_at: float | None = None
    ) -> object: ...


class Said(msgspec.Struct, frozen=True):
    """What a Node says that can be news. The order of addresses means nothing: kubelets shuffle it."""

    uid: str
    addresses: frozenset[str]
    system_uuid: str


class _News(NamedTuple):
    node: kube.Node
    heard_at: float


class Watcher:
    """Publishes the newest that each Node says; what NATS has not taken yet is replaced by what is newer."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._queue: runtime.KeyQueue[str] = runtime.KeyQueue()
        self._news: dict[str, _News] = {}

    def node_changed(self, old: kube.Node | None, new: kube.Node | None) -> None:
        """Take in a change of a Node; after a start each Node comes once as new. A deletion says nothing."""
        if new is None:
            if old is not None:
                self._news.pop(old.metadata.name, None)
            return
        now = said(new)
        if not now.addresses or (old is not None and said(old) == now):
            return
        self._news[new.metadata.name] = _News(new, time.monotonic())
        self._queue.add(new.metadata.name)

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(PUBLISHERS):
                group.create_task(self._publish(), name=f"publisher-{number}")

    async def _publish(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                news = self._news.pop(name, None)
                if news is not None:
                    await self._publish_one(news)
            finally:
                self._queue.done(name)

    async def _publish_one(self, news: _News) -> None:
        event, subject, message_id = observation(news.node)
        try:
            await self._publisher.publish(event, subject=subject, message_id=message_id, made_at=news.heard_at)
        except bus.EventTooLarge as error:  # one odd Node must not silence the others
            _log.warning("not published", node=news.node.metadata.name, why=str(error))
            return
        addresses = ",".join(seen.address for seen in event.addresses)
        _log.info("observed", node=news.node.metadata.name, addresses=addresses)


def said(node: kube.Node) -> Said:
    """Return the part of a Node that can be news."""
    return Said(node.metadata.uid, frozenset(node.addresses()), node.system_uuid)


def observation(node: kube.Node) -> tuple[EndpointObserved, str, str]:
    """Return the event, its subject, and the message id that makes a repeat of this very version harmless."""
    subject = subjects.observed_node(node.metadata.name)
    event = EndpointObserved(
        source=Source.NODE,
        addresses=tuple(SeenAddress(address=address) for address in node.addresses()[:ADDRESSES_MAX]),
        node=NodeRef(
            name=node.metadata.name,
            uid=node.metadata.uid,
            resource_version=node.metadata.resource_version,
            system_uuid=node.system_uuid,
        ),
    )
    return event, subject, f"{subject}/{node.metadata.uid}/{node.metadata.resource_version}"
