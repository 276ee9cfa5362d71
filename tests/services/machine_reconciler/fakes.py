"""Nodes, an API server and a bus as far as the reconciler uses them, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from libs import kube, talos
from libs.endpoint import Endpoint
from libs.events import Event
from libs.identity import Identity
from libs.machine import TalosMachine
from libs.talos import Leaf

MOMENT = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def leaf(fingerprint: str) -> Leaf:
    return Leaf(der=b"", fingerprint=fingerprint, common_name="node", not_after=MOMENT)


@dataclass
class FakeNode:
    """What answers at one address."""

    fingerprint: str
    identity: Identity
    maintenance: bool = False
    configuration: bytes = b"desired"
    name: str = "one"
    delay_seconds: float = 0.0
    error: Exception | None = None
    """Raised on connecting."""
    apply_error: Exception | None = None
    before_apply: Callable[[], None] = lambda: None
    received: list[bytes] = field(default_factory=list)


class FakeConnection:
    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.leaf = leaf(node.fingerprint)

    async def identity(self) -> Identity:
        return self._node.identity

    async def apply_configuration(self, data: bytes) -> None:
        self._node.before_apply()
        if self._node.apply_error is not None:
            raise self._node.apply_error
        self._node.received.append(data)

    async def machine_configuration(self) -> bytes:
        return self._node.configuration

    async def nodename(self) -> str:
        return self._node.name


class FakeNet:
    """Dials like `libs.talos`; what is not in `nodes` refuses connections."""

    def __init__(self) -> None:
        self.nodes: dict[str, FakeNode] = {}
        self.dialled: list[str] = []

    @asynccontextmanager
    async def maintenance(
        self, endpoint: Endpoint, *, pin: str | None, timeout_seconds: float
    ) -> AsyncIterator[FakeConnection]:
        node = await self._reach(endpoint)
        if not node.maintenance:
            raise talos.NotMaintenance(f"{endpoint} is configured already", leaf(node.fingerprint))
        if pin is not None and pin != node.fingerprint:
            raise talos.CertificateMismatch("another leaf", expected=pin, presented=leaf(node.fingerprint))
        yield FakeConnection(node)

    @asynccontextmanager
    async def configured(
        self,
        endpoint: Endpoint,
        credentials: talos.Credentials,
        *,
        proves: Callable[[Identity], bool],
        timeout_seconds: float,
    ) -> AsyncIterator[FakeConnection]:
        node = await self._reach(endpoint)
        if node.maintenance:
            raise talos.NotConfigured(f"{endpoint} is in maintenance mode", leaf(node.fingerprint))
        if not proves(node.identity):
            raise talos.WrongIdentity(f"another node answers at {endpoint}", node.identity)
        yield FakeConnection(node)

    async def _reach(self, endpoint: Endpoint) -> FakeNode:
        self.dialled.append(endpoint.host)
        node = self.nodes.get(endpoint.host)
        if node is None:
            raise talos.Unreachable(f"cannot connect to {endpoint}: refused")
        await asyncio.sleep(node.delay_seconds)
        if node.error is not None:
            raise node.error
        return node


class FakeApi:
    """One machine's API server: versions, conflicts, Secrets and Nodes."""

    def __init__(self, machine: TalosMachine) -> None:
        self.machine: TalosMachine | None = machine
        self.secrets: dict[str, dict[str, bytes]] = {}
        self.nodes: dict[str, kube.Node] = {}
        self.writes: list[dict[str, Any]] = []
        self.error: kube.KubeError | None = None
        self.before_write: Callable[[], None] = lambda: None

    async def get(self, resource: kube.Resource[Any], name: str, namespace: str = "") -> Any:
        if self.error is not None:
            raise self.error
        if resource is kube.SECRETS:
            if name not in self.secrets:
                raise kube.NotFound(f"get secrets {namespace}/{name}: NotFound")
            version = str(hash(tuple(sorted(self.secrets[name].items()))))
            return kube.Secret(metadata=kube.Meta(name=name, resource_version=version), data=self.secrets[name])
        if resource is kube.NODES:
            if name not in self.nodes:
                raise kube.NotFound(f"get nodes {name}: NotFound")
            return self.nodes[name]
        if self.machine is None:
            raise kube.NotFound(f"get talosmachines {namespace}/{name}: NotFound")
        return self.machine

    async def apply(
        self,
        resource: kube.Resource[Any],
        name: str,
        body: dict[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
        resource_version: str = "",
    ) -> Any:
        assert (manager, subresource) == ("nodetrail-machine-reconciler", "status")
        assert not any(key.startswith("observed") for key in body["status"])
        self.before_write()
        if self.error is not None:
            raise self.error
        if self.machine is None:
            raise kube.NotFound("gone")
        if resource_version != self.machine.metadata.resource_version:
            raise kube.Conflict(f"{name}: Conflict")
        self.writes.append(body["status"])
        observed = {
            key: value for key, value in msgspec.to_builtins(self.machine.status).items() if key.startswith("observed")
        }
        self.replace(status=msgspec.convert({**observed, **body["status"]}, type(self.machine.status)))
        return self.machine

    def replace(self, **changes: Any) -> None:
        """Somebody writes the machine: another version."""
        assert self.machine is not None
        version = str(int(self.machine.metadata.resource_version) + 1)
        metadata = msgspec.structs.replace(self.machine.metadata, resource_version=version)
        self.machine = msgspec.structs.replace(self.machine, metadata=metadata, **changes)

    def edit(self, **spec: Any) -> None:
        """An operator edits the spec."""
        assert self.machine is not None
        self.replace(spec=msgspec.structs.replace(self.machine.spec, **spec))


class FakeOutbox:
    def __init__(self) -> None:
        self.sent: list[tuple[str, Event, str]] = []
        self.when_put: Callable[[], None] = lambda: None

    def put(self, event: Event, *, subject: str, message_id: str, newest_only: bool = False) -> None:
        self.when_put()
        self.sent.append((subject, event, message_id))

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for _, event, _ in self.sent if isinstance(event, kind)]


def node(name: str, *addresses: str, uuid: str = "", ready: bool = True) -> kube.Node:
    return kube.Node(
        metadata=kube.Meta(name=name, uid=f"uid-of-{name}", resource_version="1"),
        status=kube.NodeStatus(
            addresses=tuple(kube.NodeAddress(type="InternalIP", address=address) for address in addresses),
            node_info=kube.NodeInfo(system_uuid=uuid),
            conditions=(kube.NodeCondition(type="Ready", status=str(ready)),),
        ),
    )
