"""Says which machine is next: the queue, its workers, and what wakes a machine before its time.

News only ever makes a machine be looked at; what is found then decides. So late, doubled and missing news all
do no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Protocol

from libs import kube, runtime
from libs.endpoint import InvalidEndpointError, parse_endpoint
from libs.machine import TalosMachine, dial_endpoint, ready_condition
from services.machine_reconciler.machines import Key, Machines
from services.machine_reconciler.memory import Interrupted, Memory
from services.machine_reconciler.nodes import Nodes, lists
from services.machine_reconciler.status import StartOver
from services.machine_reconciler.steps import Again

WORKERS = 128
JITTER = 0.2
START_OVER_SECONDS = 0.05

_log = runtime.log("loop")


class Round(Protocol):
    """What is done for one machine."""

    async def run(self, machine: TalosMachine, memory: Memory) -> Again: ...


class Loop:
    """Works on every machine again and again, on each by one worker at a time."""

    def __init__(
        self,
        rounds: Round,
        machines: Machines,
        nodes: Nodes,
        *,
        reprobe_seconds: float,
        moved: Callable[[TalosMachine, TalosMachine], None] = lambda _before, _after: None,
    ) -> None:
        self._rounds = rounds
        self._machines = machines
        self._nodes = nodes
        self._reprobe_seconds = reprobe_seconds
        self._moved = moved
        self._queue: runtime.KeyQueue[Key] = runtime.KeyQueue()
        self._memories: dict[Key, Memory] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"worker-{number}")

    def machine_changed(self, old: TalosMachine | None, new: TalosMachine | None) -> None:
        """Take in a change that the watch tells of."""
        if new is None:
            if old is not None:
                self._forget(old)
            return
        self._machines.put(new)
        memory = self._memory(new)
        if old is not None and not _concerns_us(old, new):
            return
        if old is not None and dial_endpoint(old) != dial_endpoint(new):
            self._moved(old, new)
        # Whatever is being found out was asked of the machine as it was.
        memory.interrupt()
        memory.backoff.reset()
        self._queue.add(new.key)

    def node_changed(self, old: kube.Node | None, new: kube.Node | None) -> None:
        """Take in what a Kubernetes Node says."""
        if old is not None:
            self._nodes.remove(old)
        if new is None:
            return
        self._nodes.put(new)
        if old is None or set(old.addresses()) != set(new.addresses()):
            self.node_seen(new)

    def node_seen(self, node: kube.Node) -> None:
        """Look at once after the machines whose Node is elsewhere than where they are dialled."""
        addresses = frozenset(node.addresses())
        if not addresses:
            return
        for key in self._machines.meant_by(node):
            machine = self._machines.get(key)
            if machine is not None and machine.was_sent and self._is_news(machine, node):
                self.wake(key, news=("node", node.metadata.uid, addresses, dial_endpoint(machine)))

    def wake(self, key: Key, *, news: object) -> None:
        """Look after a machine at once, unless this very thing was the last it was told."""
        memory = self._memories.get(key)
        if memory is not None and memory.tell(news):
            self._queue.add(key)

    def look_at(self, key: Key) -> None:
        """Look at a machine soon. Nothing is broken off: what strangers say must not keep us from finding it."""
        if key in self._memories:
            self._queue.add(key)

    def worked_at(self, key: Key, addresses: list[str]) -> None:
        """Remember where a machine has been, oldest first: places to ask when it is lost."""
        memory = self._memories.get(key)
        if memory is not None:
            for address in addresses:
                with contextlib.suppress(InvalidEndpointError):
                    parse_endpoint(address)
                    memory.remember(address)

    def _is_news(self, machine: TalosMachine, node: kube.Node) -> bool:
        if not lists(node, dial_endpoint(machine)):
            return True
        # A Node that appears or changes where the machine is expected: it may just have started.
        ready = ready_condition(machine)
        return ready is None or ready.status != "True"

    def _forget(self, machine: TalosMachine) -> None:
        self._machines.remove(machine)
        memory = self._memories.get(machine.key)
        if memory is not None and memory.uid == machine.metadata.uid:
            del self._memories[machine.key]
            self._queue.forget(machine.key)
            memory.interrupt()

    def _memory(self, machine: TalosMachine) -> Memory:
        memory = self._memories.get(machine.key)
        if memory is None or memory.uid != machine.metadata.uid:
            backoff = runtime.Backoff(limit_seconds=max(self._reprobe_seconds, 1.0), jitter=JITTER)
            memory = self._memories[machine.key] = Memory(machine.metadata.uid, backoff)
        return memory

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._round(key)
            finally:
                self._queue.done(key)

    async def _round(self, key: Key) -> None:
        machine, memory = self._machines.get(key), self._memories.get(key)
        if machine is None or memory is None or machine.metadata.deletion_timestamp is not None:
            return
        try:
            pause = self._pause(memory, await self._rounds.run(machine, memory))
            memory.succeed()
        except Interrupted:
            memory.fail()
            memory.calm()
            pause = 0.0
        except StartOver:
            memory.fail()
            pause = START_OVER_SECONDS if memory.starts_over() else memory.backoff.next()
        except kube.KubeError as error:
            memory.fail()
            pause = self._pause(memory, Again.BACKOFF)
            # An API server that is away is said once, by the watches.
            level = _log.debug if isinstance(error, kube.Unavailable) else _log.error
            level("round failed", machine="/".join(key), error=str(error))
        except Exception:  # noqa: BLE001 - one machine's oddity must not stop the others'
            memory.fail()
            pause = self._pause(memory, Again.BACKOFF)
            _log.exception("round crashed", machine="/".join(key))
        if self._memories.get(key) is memory:
            self._queue.add_after(key, pause)

    def _pause(self, memory: Memory, again: Again) -> float:
        if again == Again.REPROBE:
            return self._reprobe_seconds * random.uniform(1.0 - JITTER, 1.0)  # noqa: S311 - spreads load
        return min(memory.backoff.next(), self._reprobe_seconds)


def _concerns_us(old: TalosMachine, new: TalosMachine) -> bool:
    """Whether somebody else changed what a round depends on; our own writes come back through the watch too."""
    return (
        old.spec != new.spec
        or dial_endpoint(old) != dial_endpoint(new)
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
