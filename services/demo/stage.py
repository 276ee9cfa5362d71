"""Everything the story happens on: the embedded servers, all services and three boxes, as processes of their own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import yaml

from libs import bus, runtime
from libs.embedded import operator
from libs.embedded.boxes import Boxes
from libs.embedded.stack import Stack
from libs.endpoint import DEFAULT_PORT
from libs.events import EndpointDecided, subjects
from libs.machine import TalosMachine
from services.demo.story import BOXES, NotSeenError, was_refused

NAMESPACE = "nodetrail"
MANIFESTS = Path(__file__).resolve().parents[2] / "deploy" / "k8s"
ADDRESSES = (11, 12, 13, 112, 113, 201)
"""The last numbers of the addresses that the story uses."""
SERVICES = ("simulator", "discovery", "node_watcher", "machine_reconciler", "status_writer")

Watcher = Callable[[dict[str, TalosMachine]], None]


class Stage:
    """The running parts, seen and touched as the operator and the world do."""

    def __init__(
        self,
        stack: Stack,
        subnet: str,
        *,
        urls: dict[str, str],
        boxes: Boxes,
        operator: operator.Operator,
        nats: bus.Bus,
    ) -> None:
        self.stack = stack
        self.urls = urls
        self.subnet = subnet
        self._boxes = boxes
        self._operator = operator
        self._nats = nats
        self._names = {uuid_of(number): name for number, name in enumerate(BOXES, 1)}

    async def until_a_part_ends(self) -> NoReturn:
        """Raise `NotSeenError` as soon as a process ends that should run: whatever is waited for then is in vain."""
        while not (ended := self.stack.ended()):  # noqa: ASYNC110 - children tell nobody that they end
            await asyncio.sleep(0.2)
        part = ended[0]
        raise NotSeenError(f"{part.name} has ended with {part.exit_code}; its last words are in {part.log_file}")

    @property
    def machines(self) -> dict[str, TalosMachine]:
        """The machines by their boxes' names."""
        return self._by_box(self._operator.machines)

    async def box(self, name: str) -> dict[str, Any]:
        return await self._boxes.get(name)

    async def switch(self, name: str, action: str, **body: object) -> dict[str, Any]:
        return await self._boxes.switch(name, action, **body)

    async def add_box(self, box: dict[str, object]) -> dict[str, Any]:
        return await self._boxes.add(box)

    async def add_secret(self, name: str, data: dict[str, str]) -> None:
        await self._operator.add_secret(name, data)

    async def edit_spec(self, machine: str, spec: dict[str, object]) -> None:
        await self._operator.edit_spec(self.machines[machine].metadata.name, spec)

    async def machines_until(
        self, holds: Callable[[dict[str, TalosMachine]], bool], *, what: str, seconds: float
    ) -> dict[str, TalosMachine]:
        try:
            found = await self._operator.until(lambda all_: holds(self._by_box(all_)), what=what, seconds=seconds)
        except operator.NotSeenError as error:
            raise NotSeenError(str(error)) from error
        return self._by_box(found)

    async def refusal(self, machine: str, *, address: str, seconds: float) -> EndpointDecided:
        """Wait until the trail holds the refusal of an observation of that machine at that address."""
        name = self.machines[machine].metadata.name
        subject = subjects.decided("refused", NAMESPACE, name)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    last = await self._nats.last(subjects.TRAIL, subject)
                    if last is not None and was_refused(last.event, address):
                        assert isinstance(last.event, EndpointDecided)  # noqa: S101 - was_refused has looked
                        return last.event
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise NotSeenError(f"no refusal of {machine} at {address} within {seconds:g} s on {subject}") from None

    def _by_box(self, machines: list[TalosMachine]) -> dict[str, TalosMachine]:
        return {self._names[m.spec.identity.uuid]: m for m in machines if m.spec.identity.uuid in self._names}


@asynccontextmanager
async def stage(folder: Path, watcher: Watcher) -> AsyncIterator[Stage]:
    """Start everything in `folder`, tell `watcher` of every change of the machines, stop everything at the end."""
    subnet = free_subnet()
    stack = Stack(folder)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(asyncio.to_thread, stack.stop)
        urls = await asyncio.to_thread(_start, stack, subnet)
        admin = str(stack.kubeconfigs["admin"])
        boxes = await closing.enter_async_context(Boxes(urls["simulator"]))
        person = await closing.enter_async_context(operator.operator_at(admin, NAMESPACE))
        nats = await closing.enter_async_context(_trail(stack))
        on_stage = Stage(stack, subnet, urls=urls, boxes=boxes, operator=person, nats=nats)
        person.on_change(lambda: watcher(on_stage.machines))
        yield on_stage


def _start(stack: Stack, subnet: str) -> dict[str, str]:
    """Start the servers, then the boxes and the services; return where each of ours serves its health."""
    fleet = stack.folder / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(fleet_of(subnet), sort_keys=False))
    nats = stack.nats_server()
    stack.start(nats, stack.dev_api(manifests=(MANIFESTS / "crds", MANIFESTS / "accounts")))
    settings: dict[str, dict[str, object]] = {
        "simulator": {"fleet": fleet},
        "discovery": {"ranges": f"{subnet}.0/24", "site": "demo", "sweep_seconds": 1, "probe_timeout_seconds": 1},
        "machine_reconciler": {"reprobe_seconds": 5, "namespace": NAMESPACE},
        "status_writer": {"allowed_ranges": "127.0.0.0/8"},
    }
    services = {name: stack.service(name, **settings.get(name, {})) for name in SERVICES}
    stack.start(*services.values())
    return {name: service.url for name, service in services.items()}


@asynccontextmanager
async def _trail(stack: Stack) -> AsyncIterator[bus.Bus]:
    assert stack.nats is not None  # noqa: S101 - made by _start
    settings = runtime.CommonSettings(nats_url=stack.nats.url)
    async with bus.connect(settings, name="demo", health=runtime.Health()) as nats:
        yield nats


def uuid_of(number: int) -> str:
    """The SMBIOS UUID of the demo's box of that number."""
    return f"4c4c4544-0034-5210-8031-b4c04f4d{number:04x}"


def fleet_of(subnet: str) -> dict[str, object]:
    """The fleet file's content: three like boxes, in maintenance mode."""
    return {
        "nodes": [
            {
                "name": name,
                "addresses": [f"{subnet}.{10 + number}"],
                "uuid": uuid_of(number),
                "serial": f"DEMO{number:04}",
                "macs": [f"b4:96:91:00:00:{number:02x}"],
            }
            for number, name in enumerate(BOXES, 1)
        ]
    }


def free_subnet() -> str:
    """The first 127.86.x of which every address of the story is free, so that two demos can run side by side."""
    for third in range(256):
        subnet = f"127.86.{third}"
        if all(map(_is_free, (f"{subnet}.{last}" for last in ADDRESSES))):
            return subnet
    raise NotSeenError(f"no 127.86.x is free on port {DEFAULT_PORT} here: are other demos left running?")


def _is_free(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, DEFAULT_PORT))
        except OSError:
            return False
    return True
