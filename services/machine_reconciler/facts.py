"""What one round knows about one machine: the input of `plan`. Nothing in here is secret, and nothing acts."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from libs.endpoint import InvalidEndpointError, parse_endpoint
from libs.machine import TalosMachine, dial_endpoint


class _Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all facts."""


class Content(_Fact, frozen=True, kw_only=True):
    """The key of a Secret that the machine's spec names: usable, or why not. The content itself is elsewhere."""

    problem: str = ""
    """Names Secret and key, never content; empty when it is usable."""
    hash: str = ""


class Silent(_Fact, frozen=True, kw_only=True):
    """Nothing answered there, or not as a Talos node does."""

    why: str


class InMaintenance(_Fact, frozen=True, kw_only=True):
    """A box in maintenance mode answered."""

    fingerprint: str
    is_it: bool
    """Whether it showed the machine's identity on the connection with this fingerprint; a claim, not a proof."""


class Configured(_Fact, frozen=True, kw_only=True):
    """A configured node answered; we did not ask who it is."""

    fingerprint: str


class Proven(_Fact, frozen=True, kw_only=True):
    """The machine itself answered: chain and identity were verified on one connection."""

    fingerprint: str
    equals_desired: bool | None = None
    """Whether its active configuration means the same as the desired one; None when there is none to compare."""
    node_name: str = ""
    """The name under which it is a Kubernetes Node, as far as the node knows it."""


class Stranger(_Fact, frozen=True, kw_only=True):
    """A configured node answered that is not this machine."""

    why: str


class CredentialsRefused(_Fact, frozen=True, kw_only=True):
    """The node does not accept our own credentials, so nothing is known about it."""

    why: str
    fingerprint: str = "unknown"


Answer = Silent | InMaintenance | Configured | Proven | Stranger | CredentialsRefused


class Located(_Fact, frozen=True, kw_only=True):
    """What came of asking every place where the machine may be now."""

    proven_at: str = ""
    """Where it proved its identity; empty when no place did."""
    fingerprint: str = ""
    declared: Answer | None = None
    """What `spec.endpoint` showed, when it was among those that were asked and failed."""
    complete: bool = False
    """Whether every place where it may be was asked and told; else "proven nowhere" means nothing."""
    seen_before: bool = False
    """An earlier round found it there already, and still it is dialled elsewhere."""


class Place(StrEnum):
    """Which of a machine's two endpoints is meant."""

    DIALLED = "dialled"
    DECLARED = "declared"


class Facts(_Fact, frozen=True, kw_only=True):
    """Everything that a step is planned from. None means "not asked yet", for what a round asks as it goes."""

    machine: TalosMachine
    configuration: Content | None = None
    """None when the spec names none."""
    talosconfig: Content | None = None
    """None when the spec names none."""
    dialled: Answer | None = None
    """What the dial endpoint showed."""
    declared: Answer | None = None
    """What `spec.endpoint` showed, where that is another place."""
    located: Located | None = None
    accepted: str = ""
    """The certificate behind which a node said OK to its configuration, while this process ran."""

    @property
    def unusable_endpoint(self) -> str:
        """Why the machine cannot be dialled at all, or nothing; the API server refuses such an endpoint by now."""
        try:
            for text in (self.dial, self.machine.spec.endpoint):
                parse_endpoint(text)
        except InvalidEndpointError as error:
            return str(error)
        return ""

    @property
    def dial(self) -> str:
        """The dial endpoint, as text."""
        return dial_endpoint(self.machine)

    @property
    def is_observed(self) -> bool:
        """Whether the machine is dialled elsewhere than where it was declared."""
        return parse_endpoint(self.dial) != parse_endpoint(self.machine.spec.endpoint)

    @property
    def pin(self) -> str:
        """The approved certificate's fingerprint, or nothing."""
        return self.machine.spec.maintenance_fingerprint

    @property
    def can_be_read(self) -> bool:
        """Whether there are credentials to read the machine with."""
        return self.talosconfig is not None and not self.talosconfig.problem
