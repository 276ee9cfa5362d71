"""The types of a `TalosMachine`, field by field as its CustomResourceDefinition has them.

Decoding ignores unknown fields, so an object decoded here must never be written back whole: every
write is a patch of the fields that the writer owns.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from libs.identity import Identity

GROUP = "nodetrail.dev"
VERSION = "v1alpha1"
KIND = "TalosMachine"
PLURAL = "talosmachines"


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything that travels as Kubernetes JSON: camel case, defaults left out."""


Timestamp = Annotated[datetime, Meta(tz=True)]


class ManagedFields(_Object, frozen=True, kw_only=True):
    """Who owns which fields since when; `time` has whole seconds."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: Timestamp | None = None
    fields: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class ObjectMeta(_Object, frozen=True, kw_only=True):
    """The part of Kubernetes object metadata that nodetrail reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    managed_fields: tuple[ManagedFields, ...] = ()


class SecretKey(_Object, frozen=True, kw_only=True):
    """One key of a Secret in the machine's own namespace."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    key: Annotated[str, Meta(min_length=1, max_length=253)]


class Apply(StrEnum):
    """What may be done after the first send when the configuration's Secret changes."""

    INITIAL = "Initial"
    """Only report differences."""
    NO_REBOOT = "NoReboot"
    """Apply when the node needs no reboot for it."""
    AUTO = "Auto"
    """Let the node reboot; one machine of a cluster at a time."""


class ConfigurationSpec(_Object, frozen=True, kw_only=True):
    """The machine configuration to send, and what may be done with it later."""

    secret_ref: SecretKey
    apply: Apply = Apply.NO_REBOOT
    """What may be done after the first send when the Secret changes: only report it (Initial), apply it when no reboot
    is needed (NoReboot, the default), or let the node reboot (Auto)."""
    enforce: bool = False
    """Also undo what was changed on the node itself."""


class TalosconfigSpec(_Object, frozen=True, kw_only=True):
    """The talosconfig with which the machine is read and administered."""

    secret_ref: SecretKey


class OperationAction(StrEnum):
    """What an operator can ask of a running node."""

    REBOOT = "Reboot"
    SHUTDOWN = "Shutdown"
    RESET = "Reset"
    """Wipes STATE and EPHEMERAL, then reboots."""


class OperationSpec(_Object, frozen=True, kw_only=True):
    """A requested operation; a new id is a new request."""

    id: Annotated[str, Meta(min_length=1, max_length=63)]
    action: OperationAction


class TalosMachineSpec(_Object, frozen=True, kw_only=True):
    """What an operator declares about one box; nodetrail never changes it."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=262)]
    """IP address or DNS name, optional port (default 50000); IPv6 with a port in brackets."""
    identity: Identity = Identity()
    """Who the box is: SMBIOS UUID, serial number and permanent MACs. Set at creation, then immutable."""
    hostname: Annotated[str, Meta(max_length=253)] = ""
    """Name of its Kubernetes Node, if fixed."""
    approved: bool = False
    """The machine may receive its configuration; absent and false are the same."""
    maintenance_fingerprint: Annotated[str, Meta(max_length=44)] = ""
    """The pin: base64 of SHA-256 over the maintenance leaf's SubjectPublicKeyInfo, as talosctl prints it."""
    configuration: ConfigurationSpec | None = None
    talosconfig: TalosconfigSpec | None = None
    operation: OperationSpec | None = None


class Source(StrEnum):
    """The kind of evidence behind an observation."""

    DISCOVERY = "discovery"
    NODE = "node"
    LOOKUP = "lookup"
    READ = "read"


class MaintenanceSighting(_Object, frozen=True, kw_only=True):
    """A maintenance certificate seen under this machine's identity, for the operator to compare and pin."""

    fingerprint: str
    addresses: tuple[str, ...] = ()
    site: str = ""
    time: Timestamp | None = None


class ConfigurationStatus(_Object, frozen=True, kw_only=True):
    """Written before the send, so that a crash never makes a sent machine look unsent."""

    sent_to: str = ""
    """Fingerprint of the certificate that the configuration went to, or `adopted`."""
    sent_at: Timestamp | None = None
    hash: str = ""


class OperationPhase(StrEnum):
    """How far a requested operation has come."""

    REQUESTED = "Requested"
    ISSUED = "Issued"
    DOWN = "Down"
    RETURNED = "Returned"
    IN_MAINTENANCE = "InMaintenance"
    FAILED = "Failed"


class OperationStatus(_Object, frozen=True, kw_only=True):
    """The operation last taken up."""

    id: str = ""
    action: OperationAction | None = None
    phase: OperationPhase | None = None
    message: str = ""


class Condition(_Object, frozen=True, kw_only=True):
    """A Kubernetes condition."""

    type: Annotated[str, Meta(min_length=1, max_length=316)]
    status: Annotated[str, Meta(pattern="^(True|False|Unknown)$")]
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)] = ""
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


class TalosMachineStatus(_Object, frozen=True, kw_only=True):
    """What nodetrail knows; `observed*` belongs to the status writer, the rest to the reconciler."""

    observed_endpoint: str = ""
    """Where the node answers; dialled while `observedEndpointFor` equals `spec.endpoint`."""
    observed_endpoint_for: str = ""
    """The `spec.endpoint` that the observed one replaces; another one puts the observation out of force."""
    observed_source: Source | None = None
    """Which kind of evidence it was."""
    observed_at: Timestamp | None = None
    """When the evidence was made, to the microsecond."""
    node_name: str = ""
    """Its Kubernetes Node, as the node itself told in an authenticated read."""
    node_addresses: tuple[str, ...] = ()
    """InternalIPs that the Kubernetes Node listed at the last successful read."""
    maintenance: Annotated[tuple[MaintenanceSighting, ...], Meta(max_length=4)] = ()
    """Maintenance certificates seen under this identity, for the operator to compare and pin; the newest four."""
    configuration: ConfigurationStatus | None = None
    last_read: Timestamp | None = None
    """Time of the last authenticated read, written when `Ready` changes and else hourly."""
    operation: OperationStatus | None = None
    conditions: tuple[Condition, ...] = ()
    """Ready, IdentityConflict and AddressFlapping."""


class TalosMachine(_Object, frozen=True, kw_only=True):
    """One box, as an operator declares it and as nodetrail finds it."""

    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: TalosMachineSpec
    status: TalosMachineStatus = TalosMachineStatus()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def sent_to(self) -> str:
        """The fingerprint its configuration was sent to, `adopted`, or nothing when it was never sent."""
        return self.status.configuration.sent_to if self.status.configuration else ""

    @property
    def was_sent(self) -> bool:
        """Whether a configuration was ever about to be sent, whatever approval and pin say now."""
        return bool(self.sent_to)
