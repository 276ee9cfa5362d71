"""`Ready` and its closed set of reasons, and how a condition is set by Kubernetes' conventions."""

from datetime import datetime
from enum import StrEnum

import msgspec

from libs.machine.model import Condition, TalosMachine

READY = "Ready"
IDENTITY_CONFLICT = "IdentityConflict"
ADDRESS_FLAPPING = "AddressFlapping"


class Ready(StrEnum):
    """Why `Ready` is what it is; the same word in events, metrics and what a person looks up."""

    AWAITING_APPROVAL = "AwaitingApproval"
    SECRET_INVALID = "SecretInvalid"  # noqa: S105 - a reason, not a secret
    CONFIGURATION_MISSING = "ConfigurationMissing"
    UNREACHABLE = "Unreachable"
    IDENTITY_MISMATCH = "IdentityMismatch"
    CERTIFICATE_NOT_PINNED = "CertificateNotPinned"
    CERTIFICATE_MISMATCH = "CertificateMismatch"
    CONFIGURATION_SENT = "ConfigurationSent"
    CONFIGURATION_REJECTED = "ConfigurationRejected"
    CONVERGED = "Converged"
    CONFIGURATION_DRIFTED = "ConfigurationDrifted"
    CONFIGURATION_NEEDS_REBOOT = "ConfigurationNeedsReboot"
    CONFIGURATION_FOREIGN = "ConfigurationForeign"
    CURRENT_CONFIG_UNAVAILABLE = "CurrentConfigUnavailable"
    REAPPEARED_IN_MAINTENANCE = "ReappearedInMaintenance"
    CREDENTIALS_REJECTED = "CredentialsRejected"


READ_FAILED = frozenset({Ready.CURRENT_CONFIG_UNAVAILABLE, Ready.IDENTITY_MISMATCH, Ready.REAPPEARED_IN_MAINTENANCE})
"""The reasons that mean "the last read failed", so that news from elsewhere may be believed."""


def condition(machine: TalosMachine, kind: str) -> Condition | None:
    """Return the condition of that type, if the machine has one."""
    return next((c for c in machine.status.conditions if c.type == kind), None)


def ready_condition(machine: TalosMachine) -> Condition | None:
    """Return the machine's `Ready` condition, if it was ever set."""
    return condition(machine, READY)


MESSAGE_MAX = 4096
"""Characters of a condition's message; the API server refuses a status with a longer one than 32,768."""


def with_condition(conditions: tuple[Condition, ...], new: Condition, *, now: datetime) -> tuple[Condition, ...]:
    """Replace or add a condition; the transition time moves only when the status does, a long message is cut."""
    others = [c for c in conditions if c.type != new.type]
    old = next((c for c in conditions if c.type == new.type), None)
    kept = old.last_transition_time if old is not None and old.status == new.status else None
    new = msgspec.structs.replace(new, message=new.message[:MESSAGE_MAX], last_transition_time=kept or now)
    return (*others, new)
