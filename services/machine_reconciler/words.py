"""The messages of `Ready`: what was seen where, and what a person can do about it.

A message holds nothing that differs between two rounds that saw the same, or it would be written each round.
"""

from __future__ import annotations

from services.machine_reconciler.facts import (
    Answer,
    Configured,
    CredentialsRefused,
    Facts,
    InMaintenance,
    Proven,
    Silent,
    Stranger,
)

CONFIGURATION_MISSING = "approved, but spec.configuration names no Secret to send"


def awaiting(facts: Facts) -> str:
    return f"{_shown(facts.dial, facts.dialled)}; set spec.approved and spec.maintenanceFingerprint to configure it"


def silent(facts: Facts, answer: Silent) -> str:
    return f"{answer.why}{_declared(facts)}"


def stranger(facts: Facts, answer: InMaintenance | Stranger) -> str:
    if isinstance(answer, InMaintenance):
        return _shown(facts.dial, answer)
    return answer.why


def not_pinned(facts: Facts) -> str:
    return (
        f"{_shown(facts.dial, facts.dialled)}; nothing is sent before spec.maintenanceFingerprint says which "
        "certificate is the machine's (compare with its console)"
    )


def other_certificate(facts: Facts) -> str:
    return (
        f"{_shown(facts.dial, facts.dialled)}; pinned is {facts.pin}; nothing is sent"
        f"{_declared(facts)}. A box has a new certificate after each boot and each change of address: compare with "
        "its console and pin that one"
    )


def pinned_stranger(facts: Facts) -> str:
    return f"the box at {facts.dial} has the pinned certificate but does not show spec.identity; nothing is sent"


def credentials_refused(facts: Facts, answer: CredentialsRefused) -> str:
    return f"not read at {facts.dial}: {answer.why}"


def converged(facts: Facts) -> str:
    if facts.configuration is None:
        return f"read at {facts.dial}; spec.configuration names nothing to compare with"
    return f"read at {facts.dial}; its configuration is the desired one"


def drifted(facts: Facts) -> str:
    return f"read at {facts.dial}; its configuration differs from the desired one; not applied"


def unreadable(facts: Facts) -> str:
    return f"sent, and a configured node answers at {facts.dial}; set spec.talosconfig to have it read"


def accepted(facts: Facts) -> str:
    return f"the node at {facts.dial} accepted its configuration and has not started with it yet"


def sent(dial: str, fingerprint: str) -> str:
    return f"sent to {dial}, to the certificate {fingerprint}"


def rejected(dial: str, code: str) -> str:
    return f"the node at {dial} refused its configuration with {code}; its own log says why"


def pin_ignored(facts: Facts) -> str:
    """Say that a new pin does nothing, or nothing when there is none."""
    if not facts.pin or facts.pin == facts.machine.sent_to:
        return ""
    return f"; pin ignored: a running node proves this identity at {facts.dial}, so nothing is sent to {facts.pin}"


def reappeared(facts: Facts, box: InMaintenance) -> str:
    seen = _shown(facts.dial, box) + hunt(facts)
    if facts.talosconfig is None:
        return f"{seen}; without spec.talosconfig nothing can prove where the machine is, and nothing is sent"
    if facts.located is None or facts.located.proven_at:
        return seen
    if not facts.machine.spec.approved:
        return f"{seen}; not approved, so nothing is sent"
    if not facts.located.complete:
        return f"{seen}; not every place where the machine may be has told so far, and until then nothing is sent"
    return (
        f"{seen}; if this is the machine after a wipe, pin that certificate (spec.maintenanceFingerprint) "
        "to have it configured anew"
    )


def hunt(facts: Facts) -> str:
    """Say what became of looking elsewhere, or nothing before that."""
    found = facts.located
    if found is None:
        return ""
    if found.proven_at:
        waits = ", which was not recorded so far" if found.seen_before else ""
        return f"; it proved its identity at {found.proven_at}{waits}"
    declared = "" if found.declared is None else f"; {_shown(facts.machine.spec.endpoint, found.declared)}"
    return f"; no place that was asked proves its identity{declared}"


def _declared(facts: Facts) -> str:
    if facts.declared is None:
        return ""
    endpoint = facts.machine.spec.endpoint
    seen = f"; {_shown(endpoint, facts.declared)}"
    if isinstance(facts.declared, InMaintenance) and facts.declared.fingerprint == facts.pin:
        return f"{seen}, the pinned one: edit spec.endpoint to have it dialled there"
    return seen


def _shown(place: str, answer: Answer | None) -> str:
    if answer is None:
        return f"{place} was not asked"
    if isinstance(answer, Silent | Stranger):
        return answer.why
    return f"{_kind(answer)} answers at {place} with the certificate {answer.fingerprint}"


def _kind(answer: InMaintenance | Configured | Proven | CredentialsRefused) -> str:
    match answer:
        case InMaintenance(is_it=True):
            return "a box in maintenance mode"
        case InMaintenance():
            return "a box in maintenance mode that does not show this identity"
        case Proven():
            return "a running node with this identity"
    return "a configured node"
