"""Tells what happened to machines: events on the trail for machines to read, Kubernetes Events for people."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple, Protocol

from libs import kube, runtime
from libs.events import (
    EndpointObserved,
    Event,
    MachineConfigurationSent,
    MachineReadinessChanged,
    MachineRef,
    MachineRegistered,
    NodeRef,
    SeenAddress,
    subjects,
)
from libs.events.model import ADDRESSES_MAX
from libs.machine import Ready, Source, TalosMachine, condition, dial_endpoint, ready_condition
from libs.machine.readiness import IDENTITY_CONFLICT

WAITING_MAX = 1000
TELLERS = 4
_NORMAL = frozenset({Ready.CONVERGED, Ready.CONFIGURATION_SENT, Ready.AWAITING_APPROVAL})

_log = runtime.log("announce")


class Box(Protocol):
    """Where events for the trail are put."""

    def put(self, event: Event, *, subject: str, message_id: str, newest_only: bool = False) -> None: ...


class Tell(Protocol):
    """Writes one Kubernetes Event, best effort; `kube.tell` with an API is one."""

    async def __call__(
        self,
        about: TalosMachine,
        *,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the Event's own word
        reason: str,
        message: str,
        action: str,
    ) -> None: ...


class _Words(NamedTuple):
    machine: TalosMachine
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    action: str


class Announcer:
    """Says things once; never waits, and drops what for people when there is too much of it."""

    def __init__(self, outbox: Box, tell: Tell) -> None:
        self._outbox = outbox
        self._tell = tell
        self._words: asyncio.Queue[_Words] = asyncio.Queue(WAITING_MAX)

    async def run(self) -> None:
        """Write Kubernetes Events for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(TELLERS):
                group.create_task(self._work(), name=f"teller-{number}")

    def registered(self, machine: TalosMachine) -> None:
        """A machine was made for an unknown box."""
        namespace, name = machine.key
        subject = subjects.machine("registered", namespace, name)
        event = MachineRegistered(machine=ref(machine), identity=machine.spec.identity, endpoint=machine.spec.endpoint)
        self._outbox.put(event, subject=subject, message_id=f"{subject}/{machine.metadata.uid}")
        self._say(machine, "Normal", "Registered", f"made for the box at {machine.spec.endpoint}", "Register")

    def written(self, before: TalosMachine, after: TalosMachine) -> None:
        """The status was written; says which conditions changed their status or reason."""
        self._readiness(before, after)
        self._maintenance(before, after)
        old, new = condition(before, IDENTITY_CONFLICT), condition(after, IDENTITY_CONFLICT)
        if new is not None and (old is None or old.status != new.status):
            kind: Literal["Normal", "Warning"] = "Warning" if new.status == "True" else "Normal"
            self._say(after, kind, IDENTITY_CONFLICT, new.message, "Compare")

    def _maintenance(self, before: TalosMachine, after: TalosMachine) -> None:
        """A machine that was configured long ago shows up in maintenance mode: wiped, or somebody else."""
        if not after.was_sent:
            return
        known = {after.sent_to, *(seen.fingerprint for seen in before.status.maintenance)}
        for seen in after.status.maintenance:
            if seen.fingerprint not in known:
                message = (
                    f"a box in maintenance mode at {', '.join(seen.addresses[:4])} shows this identity, with the "
                    f"certificate {seen.fingerprint}: a twin, or this machine after a wipe; if it is the machine, "
                    "pin that certificate (spec.maintenanceFingerprint) to have it configured anew"
                )
                self._say(after, "Warning", "SeenInMaintenance", message, "Compare")

    def _readiness(self, before: TalosMachine, after: TalosMachine) -> None:
        old, new = ready_condition(before), ready_condition(after)
        if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            return
        subject = subjects.machine("readiness", *after.key)
        event = MachineReadinessChanged(
            machine=ref(after),
            status=new.status,
            reason=new.reason,
            message=new.message,
            previous_reason=old.reason if old is not None else "",
            dialled=dial_endpoint(after),
        )
        message_id = f"{subject}/{after.metadata.uid}/{after.metadata.resource_version}"
        self._outbox.put(event, subject=subject, message_id=message_id)
        _log.info("ready", machine="/".join(after.key), status=new.status, reason=new.reason, dialled=event.dialled)
        self._say(after, "Normal" if new.reason in _NORMAL else "Warning", new.reason, new.message, "Reconcile")

    def configuration(self, machine: TalosMachine, fingerprint: str, digest: str, *, code: str = "") -> None:
        """A configuration was sent and the node said OK, or `code`."""
        subject = subjects.machine("configuration", *machine.key)
        event = MachineConfigurationSent(
            machine=ref(machine),
            dialled=dial_endpoint(machine),
            fingerprint=fingerprint,
            hash=digest,
            accepted=not code,
            code=code,
        )
        # The note before each send is a write of its own, so its version tells one send from the next.
        message_id = f"{subject}/{machine.metadata.uid}/{machine.metadata.resource_version}/{code or 'OK'}"
        self._outbox.put(event, subject=subject, message_id=message_id)

    def moved(self, before: TalosMachine, after: TalosMachine) -> None:
        """The status writer recorded another address."""
        source = after.status.observed_source or "unknown"
        message = f"dialled at {dial_endpoint(after)} from now on, before at {dial_endpoint(before)} (source: {source})"
        self._say(after, "Normal", "AddressRecorded", message, "Follow")

    def proof(self, machine: TalosMachine, address: str, fingerprint: str, *, once: str) -> None:
        """The machine proved its identity elsewhere than where it is dialled."""
        subject = subjects.observed_read(*machine.key)
        event = EndpointObserved(
            source=Source.READ,
            addresses=(SeenAddress(address=address, fingerprint=fingerprint),),
            machine=ref(machine),
        )
        message_id = f"{subject}/{machine.metadata.uid}/{once}"
        self._outbox.put(event, subject=subject, message_id=message_id, newest_only=True)

    def lookup(self, machine: TalosMachine, node: kube.Node, *, once: str) -> None:
        """What the machine's Kubernetes Node lists, read after a failed read of the machine."""
        subject = subjects.observed_lookup(*machine.key)
        event = EndpointObserved(
            source=Source.LOOKUP,
            addresses=tuple(SeenAddress(address=address) for address in node.addresses()[:ADDRESSES_MAX]),
            machine=ref(machine),
            node=NodeRef(
                name=node.metadata.name,
                uid=node.metadata.uid,
                resource_version=node.metadata.resource_version,
                system_uuid=node.system_uuid,
            ),
        )
        message_id = f"{subject}/{machine.metadata.uid}/{once}"
        self._outbox.put(event, subject=subject, message_id=message_id, newest_only=True)

    def _say(
        self, machine: TalosMachine, kind: Literal["Normal", "Warning"], reason: str, message: str, action: str
    ) -> None:
        if not self._words.full():
            self._words.put_nowait(_Words(machine, kind, reason, message, action))

    async def _work(self) -> None:
        while True:
            words = await self._words.get()
            await self._tell(
                words.machine, type=words.type, reason=words.reason, message=words.message, action=words.action
            )


def ref(machine: TalosMachine) -> MachineRef:
    """Name a machine in an event."""
    return MachineRef(namespace=machine.metadata.namespace, name=machine.metadata.name, uid=machine.metadata.uid)
