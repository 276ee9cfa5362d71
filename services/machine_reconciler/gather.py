"""Finds out what a plan asks for, and adds it to the facts."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from libs import talos
from libs.endpoint import Endpoint, parse_endpoint
from libs.machine import READ_FAILED, TalosMachine, ready_condition
from services.machine_reconciler import ask, locate
from services.machine_reconciler.facts import Answer, Configured, CredentialsRefused, Facts, Located, Place
from services.machine_reconciler.memory import Memory
from services.machine_reconciler.nodes import Nodes
from services.machine_reconciler.secrets import FRESH_SECONDS, Materials, Secrets
from services.machine_reconciler.steps import Hunt, Look, Read

AT_HAND_SECONDS = 300.0
"""A machine that may have moved is read with the Secrets that are at hand: there is no time to read them anew."""

Count = Callable[[str, str], None]


class Gatherer:
    """Asks nodes, Secrets and what is known of Kubernetes Nodes."""

    def __init__(
        self, dialler: ask.Dialler, secrets: Secrets, nodes: Nodes, *, count: Count, knows_all: Callable[[], bool]
    ) -> None:
        """`knows_all` tells whether Nodes and earlier addresses were taken in and are still heard of."""
        self._dialler = dialler
        self._secrets = secrets
        self._nodes = nodes
        self._count = count
        self._knows_all = knows_all

    async def begin(self, machine: TalosMachine, memory: Memory) -> tuple[Facts, Materials]:
        """Return what is known before anything is asked, and the material that goes with it."""
        fresh_seconds = AT_HAND_SECONDS if _may_have_moved(machine, memory) else FRESH_SECONDS
        materials = await self._secrets.of(machine, fresh_seconds=fresh_seconds)
        facts = Facts(
            machine=machine,
            configuration=materials.configuration,
            talosconfig=materials.talosconfig,
            accepted=memory.accepted,
        )
        return facts, materials

    async def find_out(self, step: Look | Read | Hunt, facts: Facts, materials: Materials, memory: Memory) -> Facts:
        """Return the facts with what the step asks for."""
        match step:
            case Look(at=Place.DIALLED):
                return msgspec.structs.replace(facts, dialled=await self._look(facts, facts.dial))
            case Look():
                return msgspec.structs.replace(facts, declared=await self._look(facts, facts.machine.spec.endpoint))
            case Read():
                return await self._read(facts, materials, memory)
            case Hunt():
                return msgspec.structs.replace(facts, located=await self._locate(facts.machine, materials, memory))

    async def _look(self, facts: Facts, endpoint: str) -> Answer:
        answer = await ask.look(self._dialler, parse_endpoint(endpoint), facts.machine.spec.identity)
        self._count("look", type(answer).__name__)
        return answer

    async def _read(self, facts: Facts, materials: Materials, memory: Memory) -> Facts:
        machine = facts.machine
        credentials = _credentials(materials)

        async def read() -> Answer:
            return await ask.read(
                self._dialler,
                parse_endpoint(facts.dial),
                credentials,
                machine.spec.identity,
                desired=materials.data,
            )

        located: Located | None = None
        if _may_have_moved(machine, memory):
            answer, located = await locate.read_beside(
                read(), lambda: self._locate(machine, materials, memory), dial=facts.dial
            )
        else:
            answer = await read()
        self._count("read", type(answer).__name__)
        if isinstance(answer, CredentialsRefused) and isinstance(facts.dialled, Configured):
            answer = msgspec.structs.replace(answer, fingerprint=facts.dialled.fingerprint)
        return msgspec.structs.replace(facts, dialled=answer, located=located)

    async def _locate(self, machine: TalosMachine, materials: Materials, memory: Memory) -> Located:
        knew_all = self._knows_all()
        places = locate.candidates(
            machine, named=self._nodes.named_by(machine), like=self._nodes.like(machine), worked=memory.worked
        )
        credentials = _credentials(materials)

        async def prove(place: Endpoint) -> Answer:
            return await ask.prove(self._dialler, place, credentials, machine.spec.identity)

        located = await locate.locate(places, prove, declared=parse_endpoint(machine.spec.endpoint))
        self._count("locate", "Proven" if located.proven_at else "Missed")
        again = bool(located.proven_at) and located.proven_at == memory.proven_at
        return msgspec.structs.replace(located, seen_before=again, complete=located.complete and knew_all)


def _credentials(materials: Materials) -> talos.Credentials:
    if materials.credentials is None:
        raise AssertionError("a plan asks for a read only where there are credentials")
    return materials.credentials


def _may_have_moved(machine: TalosMachine, memory: Memory) -> bool:
    ready = ready_condition(machine)
    return machine.was_sent and (memory.hurry or (ready is not None and ready.reason in READ_FAILED))
