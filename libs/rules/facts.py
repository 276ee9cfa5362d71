"""What a decision is made from, gathered beforehand; and what is made of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from libs.endpoint import Endpoint
from libs.events import EndpointObserved, Outcome, SeenAddress
from libs.machine import Source, TalosMachine

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Reason(StrEnum):
    """Why it was decided so; the same word in the event, the metric and what a person looks up."""

    UNKNOWN_MACHINE = "UnknownMachine"
    AMBIGUOUS_IDENTITY = "AmbiguousIdentity"
    ADDRESS_NOT_DIALABLE = "AddressNotDialable"
    PREDATES_SPEC = "PredatesSpec"
    SUPERSEDED = "Superseded"
    TOO_OLD = "TooOld"
    CERTIFICATE_NOT_PINNED = "CertificateNotPinned"
    SELF_REPORTED = "SelfReported"
    TWIN_SUSPECTED = "TwinSuspected"
    CONFIGURATION_NOT_SENT = "ConfigurationNotSent"
    STILL_READABLE = "StillReadable"
    NOT_NEWS = "NotNews"

    UNCHANGED = "Unchanged"

    NOT_APPROVED = "NotApproved"
    """Recorded: the machine may not receive anything yet, so a claim may be followed."""
    PIN_PROTECTS_SEND = "PinProtectsSend"
    """Recorded: wherever it is dialled, only the pinned box is sent to."""
    FOUND_UNDER_PIN = "FoundUnderPin"
    """Recorded: a sent machine is not readable, and a person pinned the box that answers there."""
    NODE_MOVED = "NodeMoved"
    """Recorded: a sent machine is not readable, and its Kubernetes Node lists a new address."""
    PROVEN = "Proven"
    """Recorded: read there over mTLS, with this machine's identity."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The writer's settings, as far as decisions depend on them."""

    denied: tuple[Network, ...] = ()
    """Ranges that are never a node's own: pod, service, overlay, VIP."""
    allowed: tuple[Network, ...] = ()
    """Exceptions to `denied` and to the refusal of loopback; never to that of other special addresses."""
    discovery_age_max: timedelta = timedelta(minutes=5)
    age_max: timedelta = timedelta(hours=1)
    """Of every other source."""
    clock_tolerance: timedelta = timedelta(seconds=5)
    """A settled time further in the future than this comes from a wrong clock and objects to nothing."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A site's newest discovery observation of the identity in question."""

    site: str
    observed_at: datetime
    addresses: tuple[SeenAddress, ...]


class Settled(msgspec.Struct, frozen=True, order=True):
    """When the newest observation of a machine that was recorded, or changed nothing, was made, and its id."""

    observed_at: datetime
    observation_id: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one decision depends on."""

    machine: TalosMachine | None
    """The live object of the only machine that the observation can be about."""
    rivals: tuple[str, ...] = ()
    """What else it could be about: other machines that match, or that it contradicts in part; named for people."""
    hints: tuple[str, ...] = ()
    """Machines that it may be about, but too little says so; named for people."""
    source: Source
    """From the subject, which the NATS server vouches for; never from the payload."""
    observation: EndpointObserved
    observation_id: str
    observed_at: datetime
    pictures: tuple[Picture, ...] = ()
    """For a discovery observation: the newest of every site, this one included."""
    shared: frozenset[str] = frozenset()
    """Values learned to be several boxes' (see `libs.identity.match`)."""
    shown_by_others: frozenset[str] = frozenset()
    """Values that other machines declare or other live boxes show (see `libs.identity.match`)."""
    claimed: Mapping[Endpoint, str] = {}
    """Where other machines are dialled that are `Ready` there, and their names."""
    resolved: Mapping[str, tuple[str, ...]] = {}
    """What the DNS names among the machine's endpoints stand for; an unknown name stands for nothing."""
    settled: Settled | None = None
    now: datetime
    limits: Limits = Limits()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an observation."""

    outcome: Outcome
    reason: Reason
    rule: str
    """Name of the rule that decided."""
    message: str
    before: str = ""
    """The dial endpoint when it was decided."""
    after: str = ""
    """What `status.observedEndpoint` becomes when recorded, else the same as `before`."""
    settles: bool = False
    """Whether older observations of the machine are superseded by this one."""
