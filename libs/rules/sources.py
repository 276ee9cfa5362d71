"""The objections of each kind of evidence, and what is said when there is none: the last part of the table.

Discovery reports what a box in maintenance mode says of itself, a Node what its kubelet says, a lookup the
same after a failed read, and a read was proven over mTLS. The less a word is proven, the less it moves.
"""

from __future__ import annotations

from libs.endpoint import Endpoint
from libs.events import EndpointObserved, Outcome
from libs.machine import READ_FAILED, Source, TalosMachine, dial_endpoint, ready_condition
from libs.rules import addresses
from libs.rules.addresses import Seen
from libs.rules.facts import Facts, Reason
from libs.rules.objections import Rule, Verdict, certificates_at, refuse


def was_found_under_new_pin(machine: TalosMachine, facts: Facts) -> bool:
    """Whether a person pinned the box that is seen, after the machine that it claims to be was sent and lost."""
    pin = machine.spec.maintenance_fingerprint
    return _was_repinned(machine) and any(one.fingerprint == pin for one in facts.observation.addresses)


def last_read_failed(machine: TalosMachine) -> bool:
    """Whether the live `Ready` says so; the reconciler writes it before it publishes what follows from it."""
    ready = ready_condition(machine)
    return ready is not None and ready.reason in READ_FAILED


def is_self_reported(facts: Facts) -> Verdict | None:
    """A maintenance-mode box that claims a sent machine's identity is a wiped node or a twin."""
    machine = facts.machine
    if machine is None or not machine.was_sent or was_found_under_new_pin(machine, facts):
        return None
    return refuse(
        Reason.SELF_REPORTED,
        f"the machine was sent its configuration; {_listed(facts)} in maintenance mode is a wiped node or a twin:"
        " if it is the machine, pin its certificate (spec.maintenanceFingerprint)",
    )


def certificate_is_not_pinned(facts: Facts) -> Verdict | None:
    """What is approved will be sent to wherever it is dialled, so that must not be moved on a mere claim."""
    machine = facts.machine
    if machine is None or machine.was_sent or not machine.spec.approved or machine.spec.maintenance_fingerprint:
        return None
    return refuse(
        Reason.CERTIFICATE_NOT_PINNED,
        f"approved without a pin; seen at {_listed(facts)}: compare and set spec.maintenanceFingerprint",
    )


def twin_is_suspected(facts: Facts) -> Verdict | None:
    """The identity lives at the dial endpoint too, under another certificate. Only the pin can decide for one."""
    machine, chosen = facts.machine, _chosen_by_discovery(facts)
    if machine is None:
        return None
    here = certificates_at(addresses.dialled(facts), facts)
    if chosen is not None and (here <= {chosen.fingerprint} or _is_pinned(chosen, machine)):
        return None
    there = str(chosen) if chosen is not None else _listed(facts)
    certificates = ", ".join(sorted(here)) or "no known certificate"
    return refuse(
        Reason.TWIN_SUSPECTED,
        f"the identity answers at {dial_endpoint(machine)} ({certificates}) and also at {there}:"
        " pin the certificate of the right one (spec.maintenanceFingerprint)",
    )


def configuration_was_not_sent(facts: Facts) -> Verdict | None:
    """Before the send no Kubernetes Node and no mTLS read can be this machine's."""
    if facts.machine is None or facts.machine.was_sent:
        return None
    return refuse(Reason.CONFIGURATION_NOT_SENT, "the machine was never sent a configuration")


def is_still_readable(facts: Facts) -> Verdict | None:
    """A node with several addresses does not flip while the dialled one works."""
    if facts.machine is None or last_read_failed(facts.machine):
        return None
    ready = ready_condition(facts.machine)
    return refuse(
        Reason.STILL_READABLE,
        f"Ready is {ready.reason if ready is not None else 'not known'} at {dial_endpoint(facts.machine)}",
    )


def address_is_not_news(facts: Facts) -> Verdict | None:
    """The Node listed it already when the machine was last read elsewhere: a NAT'd endpoint must not flap."""
    if _chosen_by_node(facts) is not None:
        return None
    return refuse(Reason.NOT_NEWS, f"{_listed(facts)} was listed already at the last successful read")


def would_be_believed(machine: TalosMachine, source: Source, observation: EndpointObserved) -> bool:
    """Whether this kind of evidence could move the machine, were it dialled elsewhere.

    Only such an observation supersedes older ones when it changes nothing. Otherwise the outcome would depend on
    the order of delivery, and a twin at a machine's old address would silence its Kubernetes Node.
    """
    if source is Source.DISCOVERY:
        if not machine.was_sent:
            return not machine.spec.approved or bool(machine.spec.maintenance_fingerprint)
        pin = machine.spec.maintenance_fingerprint
        return _was_repinned(machine) and all(one.fingerprint == pin for one in observation.addresses)
    if source is Source.READ or not machine.was_sent:
        return machine.was_sent
    return last_read_failed(machine) and bool(_news(machine, observation))


def _chosen_by_discovery(facts: Facts) -> Seen | None:
    """Take a box that presents the pin before others; for a sent machine no other counts at all."""
    found = addresses.candidates(facts)
    if facts.machine is None:
        return None
    pinned = tuple(one for one in found if _is_pinned(one, facts.machine))
    return _first(pinned if facts.machine.was_sent else pinned or found)


def _chosen_by_node(facts: Facts) -> Seen | None:
    if facts.machine is None:
        return None
    news = _news(facts.machine, facts.observation)
    return _first(tuple(one for one in addresses.candidates(facts) if one.endpoint in news))


def _chosen_by_read(facts: Facts) -> Seen | None:
    return _first(addresses.candidates(facts))


SELF_REPORTS: tuple[Rule, ...] = (
    is_self_reported,  # first: nothing that a box says of itself moves a sent machine
    certificate_is_not_pinned,
    twin_is_suspected,  # last: it only objects to what would be recorded
)
NODE_REPORTS: tuple[Rule, ...] = (
    configuration_was_not_sent,
    is_still_readable,  # before the next: while it is readable, old and new addresses are alike
    address_is_not_news,
)
READS: tuple[Rule, ...] = (
    configuration_was_not_sent,  # an adopted machine counts as sent before its reads are told
)

BY_SOURCE: dict[Source, tuple[Rule, ...]] = {
    Source.DISCOVERY: SELF_REPORTS,
    Source.NODE: NODE_REPORTS,
    Source.LOOKUP: NODE_REPORTS,
    Source.READ: READS,
}
_CHOSEN = {
    Source.DISCOVERY: _chosen_by_discovery,
    Source.NODE: _chosen_by_node,
    Source.LOOKUP: _chosen_by_node,
    Source.READ: _chosen_by_read,
}


def chosen(facts: Facts) -> Seen | None:
    """Return the address that is recorded when nothing objects."""
    return _CHOSEN[facts.source](facts)


def recorded(facts: Facts, there: str) -> Verdict:
    """Return the verdict when nothing objected, with the reason by which it is believed."""
    return Verdict(Outcome.RECORDED, _why_recorded(facts), f"found at {there}")


def _why_recorded(facts: Facts) -> Reason:
    if facts.source is Source.READ:
        return Reason.PROVEN
    if facts.source is not Source.DISCOVERY:
        return Reason.NODE_MOVED
    if facts.machine is not None and facts.machine.was_sent:
        return Reason.FOUND_UNDER_PIN
    approved = facts.machine is not None and facts.machine.spec.approved
    return Reason.PIN_PROTECTS_SEND if approved else Reason.NOT_APPROVED


def _was_repinned(machine: TalosMachine) -> bool:
    """Whether a person pinned another box than the machine was sent to, and the machine is lost."""
    pin = machine.spec.maintenance_fingerprint
    return bool(pin) and pin != machine.sent_to and last_read_failed(machine)


def _news(machine: TalosMachine, observation: EndpointObserved) -> set[Endpoint | None]:
    """Return the addresses that the Kubernetes Node did not list at the last successful read."""
    port = addresses.declared_port(machine)
    known = {addresses.endpoint_of(text, port) for text in machine.status.node_addresses}
    return {addresses.endpoint_of(one.address, port) for one in observation.addresses} - known


def _is_pinned(one: Seen, machine: TalosMachine) -> bool:
    pin = machine.spec.maintenance_fingerprint
    return bool(pin) and one.fingerprint == pin


def _first(found: tuple[Seen, ...]) -> Seen | None:
    return found[0] if found else None


def _listed(facts: Facts) -> str:
    named = [str(one) for one in addresses.seen(facts)]
    return ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
