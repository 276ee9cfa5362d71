"""The reconciler's parts put together around one machine, with everything outside faked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from libs import kube, runtime
from libs.machine import TalosMachine, ready_condition
from services.demo.cluster import Cluster
from services.machine_reconciler.announce import Announcer
from services.machine_reconciler.gather import Gatherer
from services.machine_reconciler.machines import Machines
from services.machine_reconciler.memory import Memory
from services.machine_reconciler.nodes import Nodes
from services.machine_reconciler.pictures import Pictures
from services.machine_reconciler.round import Rounds
from services.machine_reconciler.secrets import Secrets
from services.machine_reconciler.send import Sender
from services.machine_reconciler.status import Statuses
from services.machine_reconciler.steps import Again
from tests.services.machine_reconciler.facts_of import HERE, IDENTITY, OTHER, PIN, machine
from tests.services.machine_reconciler.fakes import MOMENT, FakeApi, FakeNet, FakeNode, FakeOutbox

CLUSTER = Cluster("test")
DESIRED = CLUSTER.configuration("one").encode()
TALOSCONFIG = CLUSTER.talosconfig().encode()


def in_maintenance(fingerprint: str = PIN) -> FakeNode:
    return FakeNode(fingerprint=fingerprint, identity=IDENTITY, maintenance=True)


def running(fingerprint: str = "L" * 43 + "=") -> FakeNode:
    return FakeNode(fingerprint=fingerprint, identity=IDENTITY, configuration=DESIRED)


async def nobody(about: TalosMachine, *, type: str, reason: str, message: str, action: str) -> None: ...  # noqa: A002


@dataclass
class World:
    """One machine and the world around it."""

    start: TalosMachine = field(default_factory=machine)
    now: Callable[[], datetime] = lambda: MOMENT

    def __post_init__(self) -> None:
        self.api = FakeApi(self.start)
        self.api.secrets["one"] = {"config": DESIRED, "talosconfig": TALOSCONFIG}
        self.net = FakeNet()
        self.outbox = FakeOutbox()
        self.told: list[tuple[str, str]] = []
        self.machines = Machines()
        self.knows_all = True
        self.nodes = Nodes()
        self.pictures = Pictures(clock=lambda: MOMENT)
        self.memory = Memory("u-1", runtime.Backoff(jitter=0.0))
        self.machines.put(self.start)
        statuses = Statuses(self.api, self.machines.put)
        secrets = Secrets(self.api)
        announcer = Announcer(self.outbox, nobody)
        self.announcer = announcer
        self.rounds = Rounds(
            gatherer=Gatherer(
                self.net, secrets, self.nodes, count=lambda _asked, _answer: None, knows_all=lambda: self.knows_all
            ),
            sender=Sender(self.net, statuses, secrets, announcer, clock=self.now),
            statuses=statuses,
            announcer=announcer,
            pictures=self.pictures,
            nodes=self.nodes,
            node_reader=self.api,
            clock=self.now,
        )

    async def round(self) -> Again:
        """One round of the machine as the reconciler knows it."""
        known = self.machines.get(self.start.key)
        assert known is not None
        again = await self.rounds.run(known, self.memory)
        while not self.announcer._words.empty():
            said = self.announcer._words.get_nowait()
            self.told.append((said.type, said.reason))
        return again

    def sync(self) -> None:
        """The watch tells what is on the API server."""
        assert self.api.machine is not None
        self.machines.put(self.api.machine)

    def put_node(self, node: kube.Node) -> None:
        """A Kubernetes Node, on the server and in the watch."""
        self.api.nodes[node.metadata.name] = node
        self.nodes.put(node)

    @property
    def reason(self) -> str:
        assert self.api.machine is not None
        ready = ready_condition(self.api.machine)
        return ready.reason if ready else ""

    @property
    def message(self) -> str:
        assert self.api.machine is not None
        ready = ready_condition(self.api.machine)
        return ready.message if ready else ""

    @property
    def sent_to(self) -> str:
        assert self.api.machine is not None
        return self.api.machine.sent_to

    def received(self, address: str = HERE) -> list[bytes]:
        return self.net.nodes[address].received


__all__ = [
    "CLUSTER",
    "DESIRED",
    "HERE",
    "IDENTITY",
    "OTHER",
    "PIN",
    "TALOSCONFIG",
    "World",
    "in_maintenance",
    "running",
]
