"""What a plan can ask for: to find something out, to send, or to end the round with a verdict."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from libs.machine import Ready
from services.machine_reconciler.facts import Place


class Again(StrEnum):
    """When a machine is looked at again if nothing happens before."""

    REPROBE = "re-probe"
    """After the usual period."""
    BACKOFF = "back-off"
    """Soon at first, then ever later, and never later than the usual period."""


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all steps."""


class Verdict(_Step, frozen=True, kw_only=True):
    """What `Ready` is to say."""

    reason: Ready
    message: str
    again: Again = Again.BACKOFF

    @property
    def status(self) -> str:
        """True, False or, when we cannot blame the machine, Unknown."""
        if self.reason == Ready.CONVERGED:
            return "True"
        return "Unknown" if self.reason == Ready.CREDENTIALS_REJECTED else "False"


class Look(_Step, frozen=True, kw_only=True):
    """Find out who answers there, without credentials."""

    at: Place


class Read(_Step, frozen=True, kw_only=True):
    """Read the machine at its dial endpoint, over mTLS."""


class Hunt(_Step, frozen=True, kw_only=True):
    """Show why the read failed, then ask every place where the machine may be."""

    verdict: Verdict


class Send(_Step, frozen=True, kw_only=True):
    """Send the configuration to the dial endpoint, behind this certificate only."""

    fingerprint: str


class Show(_Step, frozen=True, kw_only=True):
    """End the round: show this."""

    verdict: Verdict


class Follow(_Step, frozen=True, kw_only=True):
    """End the round: show why the read failed, and publish where the machine proved itself."""

    verdict: Verdict


class Miss(_Step, frozen=True, kw_only=True):
    """End the round: show this, and publish what the machine's Kubernetes Node says, for want of proof."""

    verdict: Verdict


Step = Look | Read | Hunt | Send | Show | Follow | Miss
