"""A whole site for one story: real servers, our services as processes, simulated boxes over TLS, an operator.

Everything is seen and touched from outside: objects through the API server, events through NATS, boxes through
their switches. Services speak with their own accounts.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.js.errors
import yaml

from libs import kube
from libs.embedded.boxes import Boxes
from libs.embedded.nats_server import NatsServer
from libs.embedded.operator import NotSeenError, Operator, operator_at
from libs.embedded.service import ServiceProcess
from libs.embedded.stack import Stack
from libs.events import EndpointDecided, Outcome, decode, subjects
from libs.machine import Condition, TalosMachine, dial_endpoint, ready_condition

NAMESPACE = "nodetrail"
SERVICES = ("simulator", "discovery", "node_watcher", "machine_reconciler", "status_writer")
EMPTY_FLEET = Path(__file__).with_name("fleet.yaml")
_counter = itertools.count(1)


@dataclass(frozen=True)
class Box:
    """One simulated box; its addresses are those it started with."""

    name: str
    uuid: str
    serial: str
    macs: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def address(self) -> str:
        return self.addresses[0]


@dataclass(frozen=True)
class Secrets:
    """What `talosctl gen config` made for a cluster: a control plane's configuration and a talosconfig."""

    configuration: str
    talosconfig: str

    def configuration_of(self, box: Box) -> str:
        """The configuration with the box's own hostname, as a document beside it."""
        name = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": box.name, "auto": "off"}
        documents = [d for d in yaml.safe_load_all(self.configuration) if d and d.get("kind") != "HostnameConfig"]
        return yaml.safe_dump_all([*documents, name], sort_keys=False)


@dataclass
class Site:
    """The running parts of one story."""

    subnet: str
    nats_server: NatsServer
    operator: Operator
    boxes: Boxes
    nats: nats.NATS
    secrets: Secrets
    services: dict[str, ServiceProcess]
    _machines: dict[str, str] = field(default_factory=dict)
    """Names of machines by box names, once known."""

    def at(self, last: int) -> str:
        """An address of the site."""
        return f"{self.subnet}.{last}"

    async def add_box(self, name: str, *addresses: str, twin_of: Box | None = None, **fleet: Any) -> Box:
        """Put a box on the site, switched on and in maintenance mode unless the fleet entry says otherwise."""
        seed = hashlib.sha256((twin_of.name if twin_of else name).encode()).hexdigest()
        box = Box(
            # A Kubernetes Node is known by this name, and Nodes are the API server's, not the site's.
            name=name,
            uuid=f"{seed[:8]}-{seed[8:12]}-4{seed[13:16]}-8{seed[17:20]}-{seed[20:32]}",
            serial=seed[32:42].upper(),
            macs=(f"b4:96:91:{seed[42:44]}:{seed[44:46]}:{seed[46:48]}",),
            addresses=addresses,
        )
        identity = {"uuid": box.uuid, "serial": box.serial, "macs": list(box.macs)}
        await self.boxes.add({"name": name, "addresses": list(addresses), **identity, **fleet})
        return box

    async def state(self, box: Box) -> dict[str, Any]:
        return await self.boxes.get(box.name)

    async def received(self, box: Box) -> int:
        """How many configurations ever arrived at a box."""
        return int((await self.state(box))["configurations_received"]["count"])

    async def registered(self, box: Box, seconds: float = 20) -> TalosMachine:
        """Wait until a machine stands for the box."""
        return await self.until(box, lambda _: True, what=f"{box.name} registered", seconds=seconds)

    async def declare(self, box: Box, **spec: object) -> TalosMachine:
        """Make the machine as an operator who knows the box would."""
        name = box.name
        body = {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "endpoint": box.address,
                "identity": {"uuid": box.uuid, "serialNumber": box.serial, "macAddresses": list(box.macs)},
                **spec,
            },
        }
        self._machines[box.name] = name
        return await self.operator.api.create(kube.MACHINES, body, NAMESPACE)

    async def approve(self, box: Box, *, pin: str | None = None, hostname: bool = True) -> None:
        """Give the machine its Secrets and approve it with the certificate that the box's console shows."""
        await self.operator.add_secret(
            box.name, {"config": self.secrets.configuration_of(box), "talosconfig": self.secrets.talosconfig}
        )
        fingerprint = (await self.state(box))["fingerprint"] if pin is None else pin
        await self.edit(
            box,
            approved=True,
            maintenanceFingerprint=fingerprint or None,
            configuration={"secretRef": {"name": box.name, "key": "config"}},
            talosconfig={"secretRef": {"name": box.name, "key": "talosconfig"}},
            **({"hostname": box.name} if hostname else {}),
        )

    async def edit(self, box: Box, **spec: object) -> TalosMachine:
        return await self.operator.edit_spec((await self.machine(box)).metadata.name, spec)

    async def converged(self, box: Box, *, at: str | None = None, seconds: float = 20) -> TalosMachine:
        """Wait until it is `Converged`, at that address if one is given."""
        return await self.ready(box, "Converged", at=at, seconds=seconds)

    async def running(self, name: str, *addresses: str, hostname: bool = True, **fleet: Any) -> Box:
        """A box brought the whole way: discovered, approved, sent, `Converged`."""
        box = await self.add_box(name, *addresses, **fleet)
        await self.registered(box)
        await self.approve(box, hostname=hostname)
        await self.converged(box)
        return box

    async def ready(self, box: Box, *reasons: str, at: str | None = None, seconds: float = 20) -> TalosMachine:
        """Wait until `Ready` has one of these reasons, and the machine dials `at` if that is given."""

        def holds(machine: TalosMachine) -> bool:
            return reason(machine) in reasons and at in (None, dial_endpoint(machine))

        where = f" at {at}" if at else ""
        return await self.until(box, holds, what=f"{box.name} {' or '.join(reasons)}{where}", seconds=seconds)

    async def until(
        self, box: Box, holds: Callable[[TalosMachine], bool], *, what: str, seconds: float = 20
    ) -> TalosMachine:
        """Wait until it holds of the box's machine."""

        def found(machines: Iterable[TalosMachine]) -> TalosMachine | None:
            return next((m for m in machines if self._stands_for(m, box) and holds(m)), None)

        machines = await self.operator.until(lambda m: found(m) is not None, what=what, seconds=seconds)
        machine = found(machines)
        assert machine is not None
        return machine

    async def machine(self, box: Box) -> TalosMachine:
        """The machine, read live."""
        name = self._machines.get(box.name) or (await self.registered(box)).metadata.name
        return await self.operator.api.get(kube.MACHINES, name, NAMESPACE)

    async def decisions(self, box: Box) -> list[EndpointDecided]:
        """Every decision about the box's machine that the trail holds, oldest first."""
        name = (await self.machine(box)).metadata.name
        found = []
        async for event in self.trail(f"nodetrail.decided.*.{subjects.token(NAMESPACE)}.{subjects.token(name)}"):
            assert isinstance(event, EndpointDecided)
            found.append(event)
        return found

    async def decided(
        self, box: Box, outcome: Outcome, reason_: str = "", *, address: str = "", seconds: float = 20
    ) -> EndpointDecided:
        """Wait for a decision of that kind, about an observation that holds that address if one is given."""
        seen: list[EndpointDecided] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    seen = await self.decisions(box)
                    for event in seen:
                        addresses = [a.address for a in event.observation.addresses]
                        if event.outcome == outcome and reason_ in ("", event.reason) and address in ("", *addresses):
                            return event
                    await asyncio.sleep(0.1)
        except TimeoutError:
            told = "; ".join(f"{e.outcome} {e.reason} {e.message}" for e in seen[-5:])
            raise NotSeenError(f"no {outcome} {reason_} {address} of {box.name}; the trail has: {told}") from None

    async def told(self, box: Box, holds: Callable[[list[Any]], bool], *, what: str, seconds: float = 20) -> None:
        """Wait until it holds of what the trail tells of the life of the box's machine, oldest first."""
        subject = (
            f"nodetrail.machine.*.{subjects.token(NAMESPACE)}.{subjects.token((await self.machine(box)).metadata.name)}"
        )
        events: list[Any] = []
        try:
            async with asyncio.timeout(seconds):
                while not holds(events):
                    await asyncio.sleep(0.1)
                    events = [event async for event in self.trail(subject)]
        except TimeoutError:
            raise NotSeenError(f"{what}; {subject} has: {events}") from None

    async def trail(self, subject: str) -> AsyncIterator[Any]:
        """Events of the trail under a subject, oldest first, up to now."""
        sequence = 1
        while True:
            try:
                message = await self.nats.jetstream().get_msg(subjects.TRAIL, sequence, subject, next=True)
            except nats.js.errors.NotFoundError:
                return
            yield decode(message.headers, message.data)
            sequence = message.seq + 1

    def _stands_for(self, machine: TalosMachine, box: Box) -> bool:
        declared = self._machines.get(box.name)
        if declared is None and machine.spec.identity.uuid == box.uuid:
            self._machines[box.name] = declared = machine.metadata.name
        return machine.metadata.name == declared


def ready_of(machine: TalosMachine) -> Condition:
    """`Ready`, of a machine that was looked at before."""
    ready = ready_condition(machine)
    assert ready is not None
    return ready


def reason(machine: TalosMachine) -> str:
    ready = ready_condition(machine)
    return ready.reason if ready else ""


def spec_bytes(machine: TalosMachine) -> bytes:
    return msgspec.json.encode(machine.spec)


def new_subnet() -> str:
    """A /24 of loopback that no other worker and no other story of this run uses."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    number = next(_counter)
    return f"127.{100 + worker * 8 + number // 250}.{number % 250}"


@asynccontextmanager
async def site_at(
    folder: Path, *, kubeconfigs: dict[str, Path], secrets: Secrets, settings: dict[str, dict[str, object]]
) -> AsyncIterator[Site]:
    """Start a site in `folder` at an API server that is there already; `settings` are by service."""
    subnet = new_subnet()
    defaults: dict[str, dict[str, object]] = {
        "simulator": {"fleet": EMPTY_FLEET},
        "discovery": {"ranges": f"{subnet}.0/24", "site": "here", "sweep_seconds": 1, "probe_timeout_seconds": 1},
        "machine_reconciler": {"reprobe_seconds": 2, "namespace": NAMESPACE},
        "status_writer": {"allowed_ranges": "127.0.0.0/8"},
    }
    stack = Stack(folder, kubeconfigs=kubeconfigs)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(asyncio.to_thread, stack.stop)
        nats_server = stack.nats_server()
        await asyncio.to_thread(stack.start, nats_server)
        services = {
            name: stack.service(name, **(defaults.get(name, {}) | settings.get(name, {})))
            for name in SERVICES
            if settings.get(name) != {"absent": True}
        }
        await asyncio.to_thread(stack.start, *services.values())
        boxes = await closing.enter_async_context(Boxes(services["simulator"].url))
        operator = await closing.enter_async_context(operator_at(str(kubeconfigs["admin"]), NAMESPACE))
        client = await nats.connect(nats_server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        closing.push_async_callback(client.close)
        yield Site(subnet, nats_server, operator, boxes, client, secrets, services)
