"""An API server of one dictionary, a stream that only remembers, and deliveries made by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from libs import bus, kube, rules
from libs.events import EndpointDecided, EndpointObserved, Event, subjects
from libs.identity import key as identity_key
from libs.machine import Source, TalosMachine, TalosMachineStatus
from services.status_writer.gate import Gate
from services.status_writer.metrics import Metrics
from services.status_writer.writer import MANAGER, Writer
from tests.libs.rules.given import LIMITS, NOW, SEEN_AT


class FakeApi:
    """Keeps machines with versions; `meanwhile` runs between a read and what follows it."""

    def __init__(self, *machines: TalosMachine) -> None:
        self.machines = {machine.key: machine for machine in machines}
        self.applied: list[dict[str, Any]] = []
        self.reads = 0
        self.meanwhile: Callable[[], None] | None = None
        self.broken: kube.KubeError | None = None
        self._versions = itertools.count(100)

    async def get(self, resource: kube.Resource[TalosMachine], name: str, namespace: str = "") -> TalosMachine:
        self.reads += 1
        await asyncio.sleep(0)  # others get their turn here, as on a real connection
        if self.broken is not None:
            raise self.broken
        found = self.machines.get((namespace, name))
        if found is None:
            raise kube.NotFound(f"get {namespace}/{name}")
        if self.meanwhile is not None:
            self.meanwhile()
        return found

    async def apply(
        self,
        resource: kube.Resource[TalosMachine],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
        resource_version: str = "",
    ) -> TalosMachine:
        assert (manager, subresource) == (MANAGER, "status")
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        found = self.machines[namespace, name]
        if found.metadata.resource_version != resource_version:
            raise kube.Conflict(f"apply {namespace}/{name}")
        self.applied.append(dict(body))
        assert set(body) == {"status"}
        new = msgspec.convert(body["status"], TalosMachineStatus)
        changes = {
            field: getattr(new, field)
            for field in ("observed_endpoint", "observed_endpoint_for", "observed_source", "observed_at")
        }
        return self.change(found, status=msgspec.structs.replace(found.status, **changes))

    def change(self, machine: TalosMachine, **fields: Any) -> TalosMachine:
        """Change a machine as somebody else would; its version moves."""
        metadata = msgspec.structs.replace(machine.metadata, resource_version=str(next(self._versions)))
        changed = msgspec.structs.replace(machine, metadata=metadata, **fields)
        self.machines[machine.key] = changed
        return changed


class Trail:
    """What was published, by message id, as a stream with duplicate recognition keeps it."""

    def __init__(self) -> None:
        self.letters: dict[str, tuple[str, EndpointDecided]] = {}
        self.tries = 0
        self.broken: list[Exception] = []

    async def publish(self, event: Event, *, subject: str, message_id: str) -> None:
        self.tries += 1
        if self.broken:
            raise self.broken.pop(0)
        assert isinstance(event, EndpointDecided)
        self.letters.setdefault(message_id, (subject, event))

    @property
    def decided(self) -> list[tuple[str, str]]:
        return [(str(event.outcome), event.reason) for _, event in self.letters.values()]

    @property
    def last(self) -> EndpointDecided:
        return list(self.letters.values())[-1][1]

    @property
    def last_subject(self) -> str:
        return list(self.letters.values())[-1][0]


class NoHealth:
    def __init__(self) -> None:
        self.waits: dict[str, str] = {}

    def waiting(self, part: str, why: str) -> None:
        self.waits[part] = why

    def fine(self, part: str) -> None:
        self.waits.pop(part, None)


class Desk:
    """A writer with everything around it, and a clock that a test turns."""

    def __init__(self, *machines: TalosMachine, limits: rules.Limits = LIMITS) -> None:
        self.api = FakeApi(*machines)
        self.trail = Trail()
        self.health = NoHealth()
        self.now = NOW
        self.names: dict[str, tuple[str, ...]] = {}
        self.gate = Gate(self._ask, self.health)
        self.gate.fine("machines")
        self.metrics = Metrics()
        self.writer = self.new_writer(limits=limits)
        self._sequence = itertools.count(1)

    def new_writer(self, *, limits: rules.Limits = LIMITS) -> Writer:
        """Another writer on the same API server and trail, which has heard of all machines."""
        writer = Writer(
            self.api,
            self.trail,
            self.gate,
            limits=limits,
            metrics=self.metrics,
            clock=lambda: self.now,
            resolve=self._resolve,
        )
        for machine in self.api.machines.values():
            writer.machine_changed(None, machine)
        return writer

    async def _ask(self) -> object:
        return await self.api.get(kube.MACHINES, "any", "default")

    async def _resolve(self, machine: TalosMachine) -> dict[str, tuple[str, ...]]:
        return self.names

    def delivery(
        self,
        observed: EndpointObserved,
        *,
        at: datetime = SEEN_AT,
        message_id: str = "",
        subject: str = "",
    ) -> bus.Delivery:
        number = next(self._sequence)
        return bus.Delivery(
            subject=subject or subject_of(observed),
            stream=subjects.SIGHTINGS if observed.source is Source.DISCOVERY else subjects.TRAIL,
            sequence=number,
            stored_at=at + timedelta(seconds=observed.age_seconds),
            message_id=message_id or f"observation-{number}",
            event=observed,
        )

    async def tell(self, observed: EndpointObserved, *, writer: Writer | None = None, **how: Any) -> bool:
        """Deliver an observation and wait until it is settled; True if that was at once."""
        return await self.deliver(self.delivery(observed, **how), writer=writer)

    async def deliver(self, delivery: bus.Delivery, *, writer: Writer | None = None) -> bool:
        work: Awaitable[None] | None = (writer or self.writer).handle(delivery)
        if work is None:
            return True
        await work
        return False

    @property
    def machine(self) -> TalosMachine:
        return next(iter(self.api.machines.values()))


def subject_of(observed: EndpointObserved) -> str:
    if observed.source is Source.DISCOVERY and observed.identity is not None:
        return subjects.observed_discovery(observed.site, identity_key(observed.identity))
    if observed.source is Source.NODE and observed.node is not None:
        return subjects.observed_node(observed.node.name)
    assert observed.machine is not None
    where = subjects.observed_lookup if observed.source is Source.LOOKUP else subjects.observed_read
    return where(observed.machine.namespace, observed.machine.name)
