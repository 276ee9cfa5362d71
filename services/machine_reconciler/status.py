"""Writes the part of a machine's status that is ours: all of it each time, and only when something differs.

Each write carries the resourceVersion that it was computed from. After a conflict it is computed anew from a
live read, unless what the machine dials or wants has changed meanwhile: then the round no longer holds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from libs import kube
from libs.machine import (
    Condition,
    ConfigurationStatus,
    TalosMachine,
    TalosMachineStatus,
    dial_endpoint,
    ready_condition,
    with_condition,
)
from libs.machine.readiness import READY
from services.machine_reconciler.facts import Proven
from services.machine_reconciler.steps import Verdict

MANAGER = "nodetrail-machine-reconciler"
TRIES_MAX = 6
LAST_READ_EVERY = timedelta(hours=1)
"""So often `lastRead` is written while `Ready` does not change."""

Change = Callable[[TalosMachine], TalosMachineStatus]


class StartOver(Exception):  # noqa: N818 - nothing has failed
    """The machine is not as this round found it: begin a new one."""


class Writer(Protocol):
    """The part of the Kubernetes API that is used here."""

    async def get(self, resource: kube.Resource[TalosMachine], name: str, namespace: str = "") -> TalosMachine: ...

    async def apply(
        self,
        resource: kube.Resource[TalosMachine],
        name: str,
        body: dict[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
        resource_version: str = "",
    ) -> TalosMachine: ...


class Statuses:
    """Writes status; `wrote` is told of each machine as the API server then has it."""

    def __init__(self, api: Writer, wrote: Callable[[TalosMachine], None]) -> None:
        self._api = api
        self._wrote = wrote

    async def live(self, machine: TalosMachine) -> TalosMachine:
        """Read the machine live; `StartOver` when it is another one or about to go."""
        try:
            live = await self._api.get(kube.MACHINES, machine.metadata.name, machine.metadata.namespace)
        except kube.NotFound:
            raise StartOver from None
        self._wrote(live)
        if live.metadata.uid != machine.metadata.uid or live.metadata.deletion_timestamp is not None:
            raise StartOver
        return live

    async def change(self, machine: TalosMachine, change: Change) -> TalosMachine:
        """Write what `change` makes of the machine, if that differs; return the machine as it is afterwards."""
        now = machine
        for attempt in range(TRIES_MAX):
            wanted = change(now)
            if owned(wanted) == owned(now.status):
                return now
            try:
                return await self.write(now, wanted)
            except kube.Conflict:
                await asyncio.sleep(0.01 * 2**attempt * random.random())  # noqa: S311 - spreads load, guards nothing
                now = await self.live(machine)
                if not _asks_the_same(machine, now):
                    raise StartOver from None
        raise StartOver

    async def write(self, machine: TalosMachine, status: TalosMachineStatus) -> TalosMachine:
        """Write our part of `status` to the machine exactly as it was read; else `kube.Conflict`."""
        try:
            written = await self._api.apply(
                kube.MACHINES,
                machine.metadata.name,
                {"metadata": {"uid": machine.metadata.uid}, "status": owned(status)},
                machine.metadata.namespace,
                manager=MANAGER,
                subresource="status",
                resource_version=machine.metadata.resource_version,
            )
        except kube.NotFound:
            raise StartOver from None
        self._wrote(written)
        return written


def owned(status: TalosMachineStatus) -> dict[str, Any]:
    """Return our part of a status as it is applied, in one order, so that equal parts are equal."""
    ours = msgspec.structs.replace(
        status,
        observed_endpoint="",
        observed_endpoint_for="",
        observed_source=None,
        observed_at=None,
        conditions=tuple(sorted(status.conditions, key=lambda c: c.type)),
    )
    built: dict[str, Any] = msgspec.to_builtins(ours)
    return built


def with_verdict(
    machine: TalosMachine, verdict: Verdict, *, now: datetime, last_read: datetime | None, keep_message: bool = False
) -> TalosMachineStatus:
    """Return the status with `Ready` set; with `keep_message` the message stays while the reason does."""
    old = ready_condition(machine)
    same = old is not None and (old.status, old.reason) == (verdict.status, verdict.reason)
    message = old.message if old is not None and same and keep_message else verdict.message
    status = with_condition_set(machine, READY, verdict.status, verdict.reason, message, now=now)
    if not same and last_read is not None:
        status = msgspec.structs.replace(status, last_read=last_read)
    return status


def with_condition_set(
    machine: TalosMachine, kind: str, status: str, reason: str, message: str, *, now: datetime
) -> TalosMachineStatus:
    """Return the status with one condition set, by Kubernetes' conventions."""
    new = Condition(
        type=kind, status=status, reason=reason, message=message, observed_generation=machine.metadata.generation
    )
    conditions = with_condition(machine.status.conditions, new, now=now.replace(microsecond=0))
    return msgspec.structs.replace(machine.status, conditions=conditions)


def with_read(
    status: TalosMachineStatus, proven: Proven, node_addresses: tuple[str, ...] | None, *, now: datetime
) -> TalosMachineStatus:
    """Return the status after a successful read; None leaves the Node's addresses, as nothing is known of it."""
    changes: dict[str, Any] = {}
    if proven.node_name:
        changes["node_name"] = proven.node_name
    if node_addresses is not None and set(node_addresses) != set(status.node_addresses):
        changes["node_addresses"] = node_addresses
    if status.last_read is None or now - status.last_read >= LAST_READ_EVERY:
        changes["last_read"] = now.replace(microsecond=0)
    return msgspec.structs.replace(status, **changes)


def with_sending(status: TalosMachineStatus, fingerprint: str, digest: str, *, now: datetime) -> TalosMachineStatus:
    """Return the status that says to whom a configuration is about to be sent."""
    sending = ConfigurationStatus(sent_to=fingerprint, sent_at=now.replace(microsecond=0), hash=digest)
    return msgspec.structs.replace(status, configuration=sending)


def _asks_the_same(before: TalosMachine, after: TalosMachine) -> bool:
    """Whether a round begun with the one machine holds for the other: only its status has changed, if anything."""
    return (
        before.spec == after.spec and dial_endpoint(before) == dial_endpoint(after) and before.sent_to == after.sent_to
    )
