"""What to do next about a machine: an ordered chain of rows, of which the first that has something to say wins.

A row that needs to know more asks for it and is called again with the answer, so a round is `plan` called
until it ends. The order is part of the contract: it is what an operator reads as the `Ready` reason.
"""

from __future__ import annotations

from collections.abc import Callable

from libs.machine import Ready
from services.machine_reconciler import words
from services.machine_reconciler.facts import (
    Configured,
    CredentialsRefused,
    Facts,
    InMaintenance,
    Place,
    Proven,
    Silent,
    Stranger,
)
from services.machine_reconciler.steps import Again, Follow, Hunt, Look, Miss, Read, Send, Show, Step, Verdict

Row = Callable[[Facts], Step | None]


def plan(facts: Facts) -> Step:
    """Return the next step; the same facts always give the same one."""
    rows = SENT if facts.machine.was_sent else NEVER_SENT
    step = next((step for row in rows if (step := row(facts)) is not None), None)
    if step is None:
        raise AssertionError(f"no row of the plan speaks for {facts.machine.key}")
    return step


def endpoint_is_unusable(facts: Facts) -> Step | None:
    """Older data may hold what the API server refuses today."""
    if not facts.unusable_endpoint:
        return None
    reason = Ready.CURRENT_CONFIG_UNAVAILABLE if facts.machine.was_sent else Ready.UNREACHABLE
    return _show(reason, f"{facts.unusable_endpoint}; edit spec.endpoint", Again.REPROBE)


def not_approved(facts: Facts) -> Step | None:
    if facts.machine.spec.approved:
        return None
    if facts.dialled is None:
        return Look(at=Place.DIALLED)
    return _show(Ready.AWAITING_APPROVAL, words.awaiting(facts), Again.REPROBE)


def secret_is_invalid(facts: Facts) -> Step | None:
    for content in (facts.configuration, facts.talosconfig):
        if content is not None and content.problem:
            return _show(Ready.SECRET_INVALID, content.problem)
    return None


def configuration_is_missing(facts: Facts) -> Step | None:
    if facts.configuration is not None:
        return None
    return _show(Ready.CONFIGURATION_MISSING, words.CONFIGURATION_MISSING, Again.REPROBE)


def dial_endpoint_was_not_looked_at(facts: Facts) -> Step | None:
    return Look(at=Place.DIALLED) if facts.dialled is None else None


def configured_node_may_be_a_stranger(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, Configured) and facts.can_be_read:
        return Read()
    return None


def declared_endpoint_is_tried_too(facts: Facts) -> Step | None:
    """An observed address may have gone stale: what is declared is looked at before blame falls on the box."""
    if not facts.is_observed or facts.declared is not None:
        return None
    behind_the_pin = isinstance(facts.dialled, InMaintenance) and facts.dialled.fingerprint == facts.pin
    blamed = isinstance(facts.dialled, Silent) or (facts.pin and not behind_the_pin)
    return Look(at=Place.DECLARED) if blamed else None


def dial_endpoint_is_silent(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, Silent):
        return _show(Ready.UNREACHABLE, words.silent(facts, facts.dialled))
    return None


def configured_node_is_a_stranger(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, Stranger):
        return _show(Ready.IDENTITY_MISMATCH, words.stranger(facts, facts.dialled) + "; nothing is sent")
    return None


def certificate_is_not_pinned(facts: Facts) -> Step | None:
    if facts.pin:
        return None
    return _show(Ready.CERTIFICATE_NOT_PINNED, words.not_pinned(facts), Again.REPROBE)


def certificate_differs(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, InMaintenance) and facts.dialled.fingerprint == facts.pin:
        return None
    return _show(Ready.CERTIFICATE_MISMATCH, words.other_certificate(facts))


def pinned_box_is_another(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, InMaintenance) and not facts.dialled.is_it:
        return _show(Ready.IDENTITY_MISMATCH, words.pinned_stranger(facts))
    return None


def pinned_box_is_sent(facts: Facts) -> Step | None:
    return Send(fingerprint=facts.pin)


NEVER_SENT: tuple[Row, ...] = (
    endpoint_is_unusable,
    not_approved,  # first: nothing that follows concerns a box that nobody wants yet
    secret_is_invalid,
    configuration_is_missing,
    dial_endpoint_was_not_looked_at,
    configured_node_may_be_a_stranger,
    declared_endpoint_is_tried_too,
    dial_endpoint_is_silent,
    configured_node_is_a_stranger,
    certificate_is_not_pinned,
    certificate_differs,
    pinned_box_is_another,
    pinned_box_is_sent,
)


def talosconfig_is_invalid(facts: Facts) -> Step | None:
    """Without credentials nothing can be said about a node; a lost configuration does not keep us from reading it."""
    if facts.talosconfig is not None and facts.talosconfig.problem:
        return _show(Ready.SECRET_INVALID, facts.talosconfig.problem)
    return None


def node_was_not_read(facts: Facts) -> Step | None:
    if facts.dialled is not None:
        return None
    return Read() if facts.can_be_read else Look(at=Place.DIALLED)


def credentials_are_refused(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, CredentialsRefused):
        return _show(Ready.CREDENTIALS_REJECTED, words.credentials_refused(facts, facts.dialled))
    return None


def node_is_read(facts: Facts) -> Step | None:
    if not isinstance(facts.dialled, Proven):
        return None
    ignored = words.pin_ignored(facts)
    if facts.configuration is not None and facts.configuration.problem:
        return _show(Ready.SECRET_INVALID, facts.configuration.problem + ignored)
    if facts.dialled.equals_desired is False:
        return _show(Ready.CONFIGURATION_DRIFTED, words.drifted(facts) + ignored, Again.REPROBE)
    return _show(Ready.CONVERGED, words.converged(facts) + ignored, Again.REPROBE)


def node_cannot_be_read_by_anybody(facts: Facts) -> Step | None:
    if isinstance(facts.dialled, Configured):
        return _show(Ready.CONFIGURATION_SENT, words.unreadable(facts), Again.REPROBE)
    return None


def same_boot_is_sent_again(facts: Facts) -> Step | None:
    """The box to which it was sent, before it ever rebooted: we crashed in between, or it refused."""
    box = facts.dialled
    sent_to = facts.machine.sent_to
    if not (isinstance(box, InMaintenance) and box.is_it and box.fingerprint == sent_to == facts.pin):
        return None
    if facts.accepted == box.fingerprint:
        return _show(Ready.CONFIGURATION_SENT, words.accepted(facts))
    return _send_if_wanted(facts, box)


def new_pin_opens_the_send_again(facts: Facts) -> Step | None:
    """A person pinned this very box, and nothing else proves to be the machine: it was wiped."""
    box = facts.dialled
    if not (isinstance(box, InMaintenance) and box.is_it and box.fingerprint == facts.pin):
        return None
    if facts.located is None or facts.located.proven_at or not facts.located.complete:
        return None
    return _send_if_wanted(facts, box)


def lost_machine_is_hunted(facts: Facts) -> Step | None:
    if facts.located is None and facts.can_be_read:
        return Hunt(verdict=_lost(facts))
    return None


def lost_machine_was_found(facts: Facts) -> Step | None:
    if facts.located is not None and facts.located.proven_at:
        return Follow(verdict=_lost(facts))
    return None


def lost_machine_is_missed(facts: Facts) -> Step | None:
    return Miss(verdict=_lost(facts))


SENT: tuple[Row, ...] = (
    endpoint_is_unusable,
    talosconfig_is_invalid,
    node_was_not_read,
    credentials_are_refused,
    node_is_read,
    node_cannot_be_read_by_anybody,
    same_boot_is_sent_again,
    new_pin_opens_the_send_again,  # before the hunt in order, but only ever after it: it asks for its result
    lost_machine_is_hunted,
    lost_machine_was_found,
    lost_machine_is_missed,
)


def _send_if_wanted(facts: Facts, box: InMaintenance) -> Step | None:
    if not facts.machine.spec.approved or facts.configuration is None:
        return None
    if facts.configuration.problem:
        return _show(Ready.SECRET_INVALID, facts.configuration.problem)
    return Send(fingerprint=box.fingerprint)


def _lost(facts: Facts) -> Verdict:
    """Why the machine counts as lost, by what answers where it should be."""
    match facts.dialled:
        case InMaintenance(is_it=True) as box:
            return Verdict(reason=Ready.REAPPEARED_IN_MAINTENANCE, message=words.reappeared(facts, box))
        case InMaintenance() | Stranger() as other:
            return Verdict(reason=Ready.IDENTITY_MISMATCH, message=words.stranger(facts, other) + words.hunt(facts))
        case Silent() as silent:
            return Verdict(
                reason=Ready.CURRENT_CONFIG_UNAVAILABLE, message=words.silent(facts, silent) + words.hunt(facts)
            )
    raise AssertionError(f"{facts.machine.key} is not lost")


def _show(reason: Ready, message: str, again: Again = Again.BACKOFF) -> Show:
    return Show(verdict=Verdict(reason=reason, message=message, again=again))
