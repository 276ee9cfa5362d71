"""The Kubernetes objects that nodetrail reads, as small structs, and where the API serves them.

Unknown fields are ignored, so nothing read here may be written back whole: every write is a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from libs import machine
from libs.identity import UUID_MAX

ADDRESS_MAX = 64
"""Longer than any address is."""


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything that travels as Kubernetes JSON."""


class Meta(_Object, frozen=True, kw_only=True):
    """Object metadata without managedFields, which are most of a Node's weight and of no use here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class NodeAddress(_Object, frozen=True, kw_only=True):
    """One address that the kubelet reports; `type` is InternalIP, ExternalIP, Hostname or something newer."""

    type: str = ""
    address: str = ""


class NodeInfo(_Object, frozen=True, kw_only=True):
    """What the kubelet says about the box."""

    system_uuid: str = msgspec.field(default="", name="systemUUID")


class NodeCondition(_Object, frozen=True, kw_only=True):
    """A Node's condition."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeStatus(_Object, frozen=True, kw_only=True):
    """What the kubelet reports. Any list may be missing or null."""

    addresses: tuple[NodeAddress, ...] | None = ()
    node_info: NodeInfo = NodeInfo()
    conditions: tuple[NodeCondition, ...] | None = ()


class Node(_Object, frozen=True, kw_only=True):
    """A Kubernetes Node."""

    metadata: Meta = Meta()
    status: NodeStatus = NodeStatus()

    def addresses(self, kind: str = "InternalIP") -> tuple[str, ...]:
        """Return the addresses of one type, in the order the Node lists them; text too long for one is left out."""
        listed = (a.address for a in self.status.addresses or () if a.type == kind)
        return tuple(address for address in listed if 0 < len(address) <= ADDRESS_MAX)

    @property
    def system_uuid(self) -> str:
        """The box's SMBIOS UUID, or nothing: a kubelet may write what it likes, and long text identifies nothing."""
        uuid = self.status.node_info.system_uuid
        return uuid if len(uuid) <= UUID_MAX else ""

    @property
    def is_ready(self) -> bool:
        """Whether the control plane hears from its kubelet and the kubelet is content."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


class Secret(_Object, frozen=True, kw_only=True):
    """A Secret, its values decoded from base64. Its repr never shows them."""

    metadata: Meta = Meta()
    data: dict[str, bytes] | None = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


class ObjectReference(_Object, frozen=True, kw_only=True):
    """What an Event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(_Object, frozen=True, kw_only=True):
    """A core/v1 Event, as `kubectl describe` shows it."""

    metadata: Meta = Meta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str | None = ""
    count: int | None = 0


class LeaseSpec(_Object, frozen=True, kw_only=True):
    """Who holds a Lease and until when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(_Object, frozen=True, kw_only=True):
    """A coordination.k8s.io Lease."""

    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()


class HasMeta(Protocol):
    """The metadata that every object has."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class KubeObject(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> HasMeta: ...


T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of object: where the API serves it and the type it is read as."""

    api_version: str
    """`v1`, or group and version."""
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    slim: Callable[[T], T] | None = None
    """Drops, for objects kept in a `Store`, what only a live read is used for."""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object or its subresource."""
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [part for part in (self.plural, quote(name, safe=""), subresource) if part]
        return "/".join(parts)


def _without_managed_fields(item: machine.TalosMachine) -> machine.TalosMachine:
    metadata = msgspec.structs.replace(item.metadata, managed_fields=())
    return msgspec.structs.replace(item, metadata=metadata)


MACHINES: Resource[machine.TalosMachine] = Resource(
    "nodetrail.dev/v1alpha1",
    "talosmachines",
    "TalosMachine",
    machine.TalosMachine,
    slim=_without_managed_fields,
)
NODES: Resource[Node] = Resource("v1", "nodes", "Node", Node, namespaced=False)
SECRETS: Resource[Secret] = Resource("v1", "secrets", "Secret", Secret)
EVENTS: Resource[Event] = Resource("v1", "events", "Event", Event)
LEASES: Resource[Lease] = Resource("coordination.k8s.io/v1", "leases", "Lease", Lease)
