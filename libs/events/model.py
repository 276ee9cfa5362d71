"""The event structs, one for each kind of news. A new field needs a default: readers of old events meet it too."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from libs.identity import UUID_MAX, Identity
from libs.machine import Source

# Bounds are checked when an event is read: one that is over them was not published by us, and is set aside.
ADDRESSES_MAX = 256
Name = Annotated[str, Meta(max_length=253)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of everything that travels inside an event."""


class SeenAddress(_Record, frozen=True, kw_only=True):
    """An address, and the fingerprint of the connection on which the identity was read, where there was one."""

    address: Annotated[str, Meta(max_length=64)]
    fingerprint: Annotated[str, Meta(max_length=64)] = ""


class NodeRef(_Record, frozen=True, kw_only=True):
    """A Kubernetes Node, as it was read."""

    name: Name
    uid: Annotated[str, Meta(max_length=64)]
    resource_version: Annotated[str, Meta(max_length=64)]
    system_uuid: Annotated[str, Meta(max_length=UUID_MAX)] = ""


class MachineRef(_Record, frozen=True, kw_only=True):
    """A machine; the UID tells it from a deleted namesake."""

    namespace: Name
    name: Name
    uid: Annotated[str, Meta(max_length=64)] = ""


class EndpointObserved(_Record, frozen=True, kw_only=True):
    """An identity, Node or machine answered at, or was listed with, these addresses.

    Exactly one of `identity` (discovery), `node` (node) and `machine` (read; with `node` for lookup) says
    what it speaks of. A discovery event is the site's whole picture of one identity.
    """

    source: Source
    addresses: Annotated[tuple[SeenAddress, ...], Meta(max_length=ADDRESSES_MAX)]
    age_seconds: float = 0.0
    """Age at publishing by the publisher's monotonic clock; the event's time is the stream's timestamp minus this."""
    identity: Identity | None = None
    node: NodeRef | None = None
    machine: MachineRef | None = None
    site: Name = ""
    sweep: int = 0
    """Number of the sweep that completed this picture, counted from the scanner's start."""
    sweeps_agreeing: int = 0
    """In how many sweeps, this one included, the identity answered with the same signals."""


class NodeSighted(_Record, frozen=True, kw_only=True):
    """A configured Talos node answers here: its certificate could be read. A hint where to look, never a proof."""

    site: Name
    address: Annotated[str, Meta(max_length=64)]
    common_name: Name
    fingerprint: Annotated[str, Meta(max_length=64)]
    age_seconds: float = 0.0


class Outcome(StrEnum):
    """What became of an observation."""

    RECORDED = "recorded"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class EndpointDecided(_Record, frozen=True, kw_only=True):
    """What the status writer made of one observation, with everything it was decided from."""

    outcome: Outcome
    reason: str
    rule: str
    message: str = ""
    source: Source
    machine: MachineRef | None = None
    before: str = ""
    """The dial endpoint before the decision."""
    after: str = ""
    """The dial endpoint after it; equal to `before` unless recorded."""
    replaces: str = ""
    """`spec.endpoint` when it was decided, the value of `status.observedEndpointFor` if recorded."""
    observed_at: datetime | None = None
    observation_id: str = ""
    observation: EndpointObserved
    repeats: int = 0
    """How often the same refusal, with the same facts, was met since it was last published."""


class MachineRegistered(_Record, frozen=True, kw_only=True):
    """A machine was made for a box that no machine declared."""

    machine: MachineRef
    identity: Identity
    endpoint: str


class MachineReadinessChanged(_Record, frozen=True, kw_only=True):
    """`Ready` changed its status or its reason."""

    machine: MachineRef
    status: str
    reason: str
    message: str = ""
    previous_reason: str = ""
    dialled: str = ""


class MachineConfigurationSent(_Record, frozen=True, kw_only=True):
    """The configuration was sent to a proven, pinned box; `code` is the node's answer when it refused."""

    machine: MachineRef
    dialled: str
    fingerprint: str
    hash: str
    accepted: bool
    code: str = ""


class DeadLetter(_Record, frozen=True, kw_only=True):
    """A message that a consumer could not decode or has failed on too often, acknowledged and set aside."""

    subject: str
    stream: str
    sequence: int
    consumer: str
    error: str
    data: str
    """The first 4 KiB, as text with undecodable bytes escaped."""
    data_bytes: int
    deliveries: int = 1


Event = (
    EndpointObserved
    | NodeSighted
    | EndpointDecided
    | MachineRegistered
    | MachineReadinessChanged
    | MachineConfigurationSent
    | DeadLetter
)
