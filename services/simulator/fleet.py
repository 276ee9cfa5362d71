"""A site of simulated nodes in one process: `async with Fleet() as fleet: box = await fleet.add(NodeSpec(...))`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from libs.talos import serve
from services.simulator.box import AddressTakenError, Box
from services.simulator.hostile import STRANGE, Hostile, StrangeNode, hostile_at
from services.simulator.node import Node, Phase
from services.simulator.spec import HostileSpec, NodeSpec, checked


class UnknownNodeError(LookupError):
    """There is nothing of that name or at that address."""


class Fleet:
    """The nodes of one site. `on_change` hears of a box whenever it may have changed, also when it was removed."""

    def __init__(
        self,
        *,
        seed: int = 1,
        cluster_ca: serve.Authority | None = None,
        on_change: Callable[[Box], None] = lambda _: None,
    ) -> None:
        self.nodes: dict[str, Box] = {}
        self.hostile: dict[str, HostileSpec] = {}
        """What is hostile, by its address."""
        self.on_change = on_change
        self._seed = seed
        self._cluster_ca = cluster_ca
        self._tasks = asyncio.TaskGroup()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._running.values():
            task.cancel()
        await self._tasks.__aexit__(None, None, None)

    def __getitem__(self, name: str) -> Box:
        if name not in self.nodes:
            raise UnknownNodeError(f"there is no node {name!r}; there are: {', '.join(sorted(self.nodes)) or 'none'}")
        return self.nodes[name]

    async def add(self, spec: NodeSpec) -> Box:
        """Put a node on the site and switch it on, unless its entry says otherwise."""
        spec = checked(spec, where=spec.name)
        if spec.name in self.nodes:
            raise AddressTakenError(f"there is a node {spec.name!r} already")
        if spec.is_on:
            self.check_free(spec.addresses, spec.port, besides=spec.name)
        box = Box(Node(spec, seed=self._seed, clock=time.time), self)
        self.nodes[spec.name] = box
        self._run(("node", spec.name), box)
        if spec.is_on:
            try:
                await box.power_on()
            except AddressTakenError:
                await self.remove(spec.name)
                raise
        return box

    async def remove(self, name: str) -> None:
        """Take a node away."""
        box = self[name]
        del self.nodes[name]
        await self._end(("node", name))
        self.on_change(box)

    async def add_hostile(self, spec: HostileSpec) -> None:
        """Put something broken at an address."""
        self.check_free([spec.address], spec.port, besides="")
        key = ("hostile", spec.address)
        try:
            if spec.kind in STRANGE:
                box = Box(StrangeNode(spec, seed=self._seed), self)
                self._run(key, box)
                await box.power_on()
            else:
                hostile = hostile_at(spec)
                await hostile.open()
                self._run(key, hostile)
        except (AddressTakenError, serve.AddressInUseError) as error:
            await self._end(key)
            raise AddressTakenError(str(error)) from error
        self.hostile[spec.address] = spec

    async def remove_hostile(self, address: str) -> None:
        """Take away what is hostile at an address."""
        if self.hostile.pop(address, None) is None:
            raise UnknownNodeError(f"there is nothing hostile at {address}")
        await self._end(("hostile", address))

    # What boxes ask of the site (`box.Site`).

    def check_free(self, addresses: Iterable[str], port: int, *, besides: str) -> None:
        wanted = {(address, port) for address in addresses}
        held = {
            (address, box.node.spec.port): box.name
            for box in self.nodes.values()
            if box.name != besides and box.node.is_on
            for address in box.node.addresses
        }
        held |= {(address, spec.port): f"something hostile ({spec.kind})" for address, spec in self.hostile.items()}
        for taken in sorted(wanted & held.keys()):
            raise AddressTakenError(f"{taken[0]} port {taken[1]} is held by {held[taken]}")

    def signer(self, authority_pem: bytes) -> serve.Authority | None:
        key = serve.spki(serve.load_certificate(authority_pem))
        control_planes = (
            box.node.configuration.authority
            for box in self.nodes.values()
            if box.answers and box.node.phase is Phase.RUNNING and box.node.configuration
        )
        return next(
            (
                authority
                for authority in (*control_planes, self._cluster_ca)
                if authority and serve.spki(authority.certificate) == key
            ),
            None,
        )

    def answering(self, target: str) -> Box | None:
        return next((box for box in self.nodes.values() if box.answers and box.is_me(target)), None)

    def changed(self, box: Box) -> None:
        for other in self.nodes.values():
            if other is not box and other.waiting_for:
                other.wake()
        self.on_change(box)

    def _run(self, key: tuple[str, str], part: Box | Hostile) -> None:
        self._running[key] = self._tasks.create_task(part.run(), name=" ".join(key))

    async def _end(self, key: tuple[str, str]) -> None:
        task = self._running.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
