"""One node with its switches and its API: keeps port and timers in step with the state machine.

A task of its own does all opening and closing; whoever changes the node waits until that task has caught up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from libs import runtime
from libs.talos import serve
from services.simulator import spec as specs
from services.simulator.node import TALOS_VERSION, Node, WrongStateError
from services.simulator.port import Port
from services.simulator.view import Configurations, Connections, NodeState

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"

_log = runtime.log("simulator")


class Site(Protocol):
    """What a box knows of the others."""

    def check_free(self, addresses: Iterable[str], port: int, *, besides: str) -> None:
        """Raise `AddressTakenError` when another box is on at one of these addresses."""
        ...

    def signer(self, authority_pem: bytes) -> serve.Authority | None:
        """Return the authority with its key, as a running control plane of that cluster has it."""
        ...

    def answering(self, target: str) -> Box | None:
        """Return the box that answers at an address or under a name."""
        ...

    def changed(self, box: Box) -> None: ...


class AddressTakenError(runtime.CannotStartError):
    """Somebody else has the address."""


class Box:
    """A simulated node with its port. Made and run by a `Fleet`; the verbs return when the port is as it must be."""

    def __init__(self, node: Node, site: Site) -> None:
        self.node = node
        self.kubelet = node.spec.kubelet
        self._site = site
        self._port = Port(node, self, site.signer)
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._unheld = asyncio.Event()
        self._is_gone = False
        self._connected = 0
        self._last_peer: serve.Peer | None = None

    @property
    def name(self) -> str:
        return self.node.spec.name

    @property
    def answers(self) -> bool:
        """Whether the port is open."""
        return self._port.is_open

    @property
    def fingerprint(self) -> str:
        """Of the leaf that is shown now; empty when nothing is."""
        return self._port.fingerprint

    @property
    def waiting_for(self) -> str:
        """Why a node that should answer does not yet."""
        return self._port.waiting_for

    # The verbs.

    async def power_on(self, addresses: Iterable[str] | None = None) -> NodeState:
        """Switch it on, at new addresses if some are given; returns when it answers, unless its boot takes time."""
        new = self._addresses(addresses)
        if not self.node.is_on:
            self._site.check_free(new or self.node.addresses, self.node.spec.port, besides=self.name)
        self.node.power_on(new)
        return await self._settled()

    async def power_off(self) -> NodeState:
        """Cut the power: the port is gone, open connections hang."""
        self.node.power_off()
        return await self._settled()

    async def power_cycle(self, addresses: Iterable[str] | None = None) -> NodeState:
        """Cut the power and switch it on again, at new addresses if some are given."""
        new = self._addresses(addresses)
        self._site.check_free(new or self.node.addresses, self.node.spec.port, besides=self.name)
        if self.node.is_on:
            await self.power_off()
        self.node.power_on(new)
        return await self._settled()

    async def move(self, addresses: Iterable[str]) -> NodeState:
        """Give it another lease while it runs: another leaf, and old connections hang."""
        new = self._addresses(addresses)
        if not new:
            raise specs.FleetError(f"{self.name}: a move wants addresses")
        self._site.check_free(new, self.node.spec.port, besides=self.name)
        self.node.move(new)
        return await self._settled()

    async def wipe(self, addresses: Iterable[str] | None = None) -> NodeState:
        """Lose the installation and come back in maintenance mode."""
        new = self._addresses(addresses)
        self._site.check_free(new or self.node.addresses, self.node.spec.port, besides=self.name)
        if self.node.is_on:
            await self.power_off()
        self.node.wipe(new)
        return await self._settled()

    async def trouble(self, **changes: Any) -> NodeState:
        """Change what is wrong with it; what is not named stays, null takes one back."""
        present = msgspec.to_builtins(self.node.troubles)
        defaults = msgspec.to_builtins(specs.Troubles())
        given = {key: defaults.get(key) if value is None else value for key, value in changes.items()}
        self.node.troubles = specs.troubles_from(present | given, self.name)
        if not self.node.troubles.hold_apply:
            self._unheld.set()
        return await self._settled()

    async def set_kubelet(self, **changes: Any) -> NodeState:
        """Change how its kubelet behaves; what is not named stays."""
        present: Mapping[str, Any] = msgspec.to_builtins(self.kubelet)
        self.kubelet = specs.kubelet_from({**present, **changes}, self.name)
        return await self._settled()

    def state(self) -> NodeState:
        """Return what an onlooker with a console sees."""
        node, peer = self.node, self._last_peer
        return NodeState(
            name=self.name,
            addresses=node.addresses,
            port=node.spec.port,
            power="on" if node.is_on else "off",
            mode=node.mode,
            phase=node.phase,
            answers=self.answers,
            waiting_for=self.waiting_for,
            fingerprint=self.fingerprint,
            boot_id=node.boot_id,
            boots=node.boots,
            node_id=node.node_id,
            hostname=node.hostname,
            kind=node.kind,
            uuid=node.uuid,
            serial=node.serial,
            macs=node.macs,
            configurations_received=Configurations(count=node.received_count, sha256=tuple(node.received)),
            connections=Connections(open=self._port.connections, total=self._connected),
            last_roles=tuple(sorted(peer.roles)) if peer else (),
            troubles=node.troubles,
            kubelet=self.kubelet,
        )

    # What its API asks (`serve.NodeApi`).

    @property
    def in_maintenance(self) -> bool:
        return not self.node.is_configured

    @property
    def forwards(self) -> bool:
        return self.node.kind == "controlplane"

    @property
    def resources(self) -> serve.Resources:
        return self.node.resources

    def conduct(self) -> serve.Conduct:
        if self.node.troubles.silent:
            return serve.Conduct.SILENT
        return serve.Conduct.DROPPED if self.node.troubles.drop_after_handshake else serve.Conduct.NORMAL

    def connected(self, peer: serve.Peer) -> None:
        self._connected += 1
        self._last_peer = peer

    def is_me(self, target: str) -> bool:
        return target in self.node.addresses or (target != "" and target == self.node.hostname)

    def neighbour(self, target: str) -> serve.NodeApi | None:
        return self._site.answering(target)

    def version(self) -> serve.VersionInfo:
        return serve.VersionInfo(tag=TALOS_VERSION, rbac=True if self.node.is_configured else None)

    def hostname(self) -> str:
        return self.node.hostname

    async def apply_configuration(self, data: bytes, mode: serve.Mode, *, dry_run: bool) -> serve.Applied:
        while self.node.troubles.hold_apply:
            self._unheld.clear()
            await self._unheld.wait()
        self.node.check(data)
        refuse = self.node.troubles.refuse_apply
        if refuse and refuse.times > 0:
            left = msgspec.structs.replace(refuse, times=refuse.times - 1)
            self.node.troubles = msgspec.structs.replace(self.node.troubles, refuse_apply=left if left.times else None)
            raise serve.Refusal(serve.Code[refuse.code], refuse.message)
        applied = self.node.apply(data, mode, dry_run=dry_run)
        self._wake.set()
        return applied

    def reboot(self) -> None:
        self.node.reboot()
        self._wake.set()

    def shutdown(self) -> None:
        self.node.shutdown()
        self._wake.set()

    def reset(self, *, labels: Iterable[str], reboot: bool) -> None:
        self.node.reset(labels, reboot=reboot)
        self._wake.set()

    def read_file(self, path: str) -> bytes:
        if path != BOOT_ID_FILE:
            raise serve.Refusal(serve.Code.NOT_FOUND, f"stat {path}: no such file or directory")
        return f"{self.node.boot_id}\n".encode()

    # The task behind.

    async def run(self) -> None:
        """Keep the port in step until cancelled."""
        waiters: list[asyncio.Future[None]] = []
        try:
            while True:
                waiters, self._waiters = self._waiters, []
                failure: AddressTakenError | None = None
                try:
                    await self._port.settle()
                except serve.AddressInUseError as error:
                    failure = await self._give_up(error)
                _answer(waiters, failure)
                self._site.changed(self)
                await self._something_happens()
        finally:
            self._is_gone = True
            _answer([*waiters, *self._waiters], WrongStateError(f"{self.name} was taken away"))
            await self._port.close()

    def wake(self) -> None:
        """Look again: something that the box waits for may have come."""
        self._wake.set()

    async def _settled(self) -> NodeState:
        """Wait for the task behind to catch up, and fail as it fails."""
        if self._is_gone:
            raise WrongStateError(f"{self.name} was taken away")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._wake.set()
        await waiter
        return self.state()

    async def _something_happens(self) -> None:
        due = self.node.due
        wait = None if due is None else max(0.0, due - time.time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        self._wake.clear()
        self.node.tick()

    async def _give_up(self, error: OSError) -> AddressTakenError:
        """A node that cannot have its address is switched off, and whoever asked for it hears why."""
        _log.warning("cannot listen", node=self.name, error=str(error))
        with contextlib.suppress(WrongStateError):
            self.node.power_off()
        await self._port.close()
        return AddressTakenError(f"{self.name}: {error.strerror}")

    def _addresses(self, given: Iterable[str] | None) -> tuple[str, ...] | None:
        return specs.addresses_from(given, self.name) if given else None


def _answer(waiters: Iterable[asyncio.Future[None]], failure: Exception | None) -> None:
    for waiter in waiters:
        if waiter.done():  # whoever waited has gone
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)
