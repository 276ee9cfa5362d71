"""One round of one machine: the plan is followed to its end, and what it ends with is written and published."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from libs import kube, runtime
from libs.endpoint import parse_endpoint
from libs.machine import TalosMachine, TalosMachineStatus, condition, dial_endpoint
from libs.machine.readiness import IDENTITY_CONFLICT
from services.machine_reconciler import status
from services.machine_reconciler.announce import Announcer
from services.machine_reconciler.facts import Facts, Proven
from services.machine_reconciler.gather import Gatherer
from services.machine_reconciler.machines import node_names
from services.machine_reconciler.memory import Memory
from services.machine_reconciler.nodes import Nodes, lists
from services.machine_reconciler.pictures import Pictures, conflict, sightings
from services.machine_reconciler.plan import plan
from services.machine_reconciler.send import Sender
from services.machine_reconciler.status import Statuses
from services.machine_reconciler.steps import Again, Follow, Hunt, Look, Miss, Read, Send, Show, Verdict

STEPS_MAX = 8

_log = runtime.log("round")


class NodeReader(Protocol):
    """The part of the API that knows the machines' Kubernetes Nodes."""

    async def get(self, resource: kube.Resource[kube.Node], name: str, namespace: str = "") -> kube.Node: ...


class Rounds:
    """Runs rounds, for any number of machines side by side."""

    def __init__(
        self,
        *,
        gatherer: Gatherer,
        sender: Sender,
        statuses: Statuses,
        announcer: Announcer,
        pictures: Pictures,
        nodes: Nodes,
        node_reader: NodeReader,
        clock: Callable[[], datetime],
    ) -> None:
        self._gatherer = gatherer
        self._sender = sender
        self._statuses = statuses
        self._announcer = announcer
        self._pictures = pictures
        self._nodes = nodes
        self._node_reader = node_reader
        self._clock = clock

    async def run(self, machine: TalosMachine, memory: Memory) -> Again:
        """Run one round to its end and say when the next is due.

        Raises `Interrupted` or `StartOver` when what it found no longer holds, and `kube.KubeError`.
        """
        memory.begin()
        facts, materials = await self._gatherer.begin(machine, memory)
        for _ in range(STEPS_MAX):
            step = plan(facts)
            if isinstance(step, Hunt):
                facts = await self._show(facts, memory, step.verdict, keep_message=True)
            if not isinstance(step, Look | Read | Hunt):
                return await self._end(step, facts, memory)
            facts = await memory.unless_interrupted(self._gatherer.find_out(step, facts, materials, memory))
        raise AssertionError(f"the plan for {machine.key} does not end")

    async def _end(self, step: Send | Show | Follow | Miss, facts: Facts, memory: Memory) -> Again:
        match step:
            case Send(fingerprint=fingerprint):
                verdict = await self._send(facts, memory, fingerprint)
            case Show(verdict=verdict):
                await self._show(facts, memory, verdict)
            case Follow(verdict=verdict):
                await self._follow(facts, memory, verdict)
            case Miss(verdict=verdict):
                facts = await self._show(facts, memory, verdict)
                await self._look_up(facts.machine)
        _log.debug("round ended", machine="/".join(facts.machine.key), reason=verdict.reason, dialled=facts.dial)
        return verdict.again

    async def _send(self, facts: Facts, memory: Memory, fingerprint: str) -> Verdict:
        outcome = await self._sender.send(facts.machine, fingerprint)
        if outcome.accepted:
            memory.accepted = fingerprint
            memory.backoff.reset()
        await self._show(msgspec.structs.replace(facts, machine=outcome.machine), memory, outcome.verdict)
        return outcome.verdict

    async def _follow(self, facts: Facts, memory: Memory, verdict: Verdict) -> None:
        located = facts.located
        if located is None:
            raise AssertionError("a plan follows only what was located")
        # A proof on its way into the record needs no words: one more write would make the writer try twice.
        facts = await self._show(facts, memory, verdict, keep_message=not located.seen_before)
        memory.proven_at = located.proven_at
        address = parse_endpoint(located.proven_at).host
        self._announcer.proof(facts.machine, address, located.fingerprint, once=randomness.token_hex(8))

    async def _look_up(self, machine: TalosMachine) -> None:
        """Publish what the machine's Node says now, if that is another address than the one that failed."""
        for name in node_names(machine):
            try:
                node = await self._node_reader.get(kube.NODES, name)
            except kube.KubeError as error:
                _log.debug("no Node to look up", machine="/".join(machine.key), node=name, error=str(error))
                continue
            if node.addresses() and not lists(node, dial_endpoint(machine)):
                self._announcer.lookup(machine, node, once=randomness.token_hex(8))
            return

    async def _show(self, facts: Facts, memory: Memory, verdict: Verdict, *, keep_message: bool = False) -> Facts:
        """Write what this round found, if it is news; return the facts with the machine as it is then."""
        proven = facts.dialled if isinstance(facts.dialled, Proven) else None
        if proven is not None:
            self._was_read(facts, memory)
        now = self._clock()

        def change(machine: TalosMachine) -> TalosMachineStatus:
            new = status.with_verdict(machine, verdict, now=now, last_read=memory.last_read, keep_message=keep_message)
            if proven is not None:
                new = status.with_read(new, proven, self._nodes.addresses_of(machine, told=proven.node_name), now=now)
            return self._with_pictures(msgspec.structs.replace(machine, status=new), proven, now)

        before = facts.machine
        after = await self._statuses.change(before, change)
        self._announcer.written(before, after)
        return msgspec.structs.replace(facts, machine=after)

    def _was_read(self, facts: Facts, memory: Memory) -> None:
        memory.last_read = self._clock().replace(microsecond=0)
        memory.proven_at = ""
        memory.backoff.reset()
        memory.remember(facts.dial)

    def _with_pictures(self, machine: TalosMachine, proven: Proven | None, now: datetime) -> TalosMachineStatus:
        """Return the status with what discovery sees in maintenance mode under this identity."""
        pictures = self._pictures.of(machine)
        running_at = dial_endpoint(machine) if proven is not None else ""
        twins = conflict(pictures, running_at=running_at, sent_to=machine.sent_to)
        new = msgspec.structs.replace(machine.status, maintenance=sightings(machine.status.maintenance, pictures))
        machine = msgspec.structs.replace(machine, status=new)
        if twins:
            return status.with_condition_set(machine, IDENTITY_CONFLICT, "True", "TwinAlive", twins, now=now)
        if condition(machine, IDENTITY_CONFLICT) is None:
            return new
        gone = "this identity is alive in one place at most"
        return status.with_condition_set(machine, IDENTITY_CONFLICT, "False", "NoTwin", gone, now=now)
