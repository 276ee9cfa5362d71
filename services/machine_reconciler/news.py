"""What arrives from the streams: pictures of boxes in maintenance mode, Node events, decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

from libs import bus, kube
from libs.events import EndpointDecided, EndpointObserved, Outcome, subjects
from libs.machine import Source
from services.machine_reconciler.machines import Key, Machines
from services.machine_reconciler.pictures import Pictures

LATER_SECONDS = 2.0


class Streams(Protocol):
    """The part of the bus that is read here."""

    def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]: ...


class Wakes(Protocol):
    """The part of the loop that is used here."""

    def look_at(self, key: Key) -> None: ...
    def node_seen(self, node: kube.Node) -> None: ...
    def worked_at(self, key: Key, addresses: list[str]) -> None: ...


class Registers(Protocol):
    """The part of the registrar that is used here."""

    async def consider(self, observed: EndpointObserved) -> None: ...


class News:
    """Handlers of the two consumers. All of them bear messages that come late, twice or in any order."""

    def __init__(self, loop: Wakes, machines: Machines, pictures: Pictures, registrar: Registers) -> None:
        self._loop = loop
        self._machines = machines
        self._pictures = pictures
        self._registrar = registrar

    async def catch_up(self, streams: Streams) -> None:
        """Take in what was seen and recorded before this process began."""
        async for delivery in streams.newest(subjects.TRAIL, "nodetrail.decided.recorded.>"):
            self.trail(delivery)
        async for delivery in streams.newest(subjects.SIGHTINGS, "nodetrail.observed.discovery.>"):
            self._picture(delivery)

    def sighting(self, delivery: bus.Delivery) -> Awaitable[None] | None:
        """Keep a picture, and register its box if no machine stands for it."""
        event = delivery.event
        if not isinstance(event, EndpointObserved) or event.identity is None:
            return None
        if self._picture(delivery):
            return None
        return self._consider(event)

    def trail(self, delivery: bus.Delivery) -> None:
        """Wake the machines of a Node that moved; remember where recorded machines were."""
        event = delivery.event
        speaker = subjects.source_of(delivery.subject)  # what the server vouches for, whatever the payload says
        if isinstance(event, EndpointObserved) and speaker == Source.NODE and event.node is not None:
            self._loop.node_seen(
                kube.Node(
                    metadata=kube.Meta(name=event.node.name, uid=event.node.uid),
                    status=kube.NodeStatus(
                        addresses=tuple(
                            kube.NodeAddress(type="InternalIP", address=a.address) for a in event.addresses
                        ),
                        node_info=kube.NodeInfo(system_uuid=event.node.system_uuid),
                    ),
                )
            )
        if isinstance(event, EndpointDecided) and event.outcome == Outcome.RECORDED and speaker is None:
            self._remember(event)

    def _picture(self, delivery: bus.Delivery) -> bool:
        """Take in a picture, look at the machines that it may be of, and say whether there are any."""
        event = delivery.event
        if not isinstance(event, EndpointObserved) or event.identity is None:
            return False
        changed = self._pictures.put(delivery.subject, event, delivery.made_at)
        found = self._machines.find(event.identity)
        keys: set[Key] = {*found.matching, *found.weak}
        if changed:
            for key in keys:
                self._loop.look_at(key)
        return bool(keys)

    def _remember(self, event: EndpointDecided) -> None:
        """A machine's addresses before and after; the machine must still be the one that was decided about."""
        if event.machine is None:
            return
        key = (event.machine.namespace, event.machine.name)
        machine = self._machines.get(key)
        if machine is not None and machine.metadata.uid == event.machine.uid:
            self._loop.worked_at(key, [address for address in (event.before, event.after) if address])

    async def _consider(self, event: EndpointObserved) -> None:
        try:
            await self._registrar.consider(event)
        except kube.Unavailable as error:
            raise bus.Later(LATER_SECONDS) from error
