"""The objections that hold for every source: each rule returns a verdict, or None when it does not object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from libs.endpoint import DEFAULT_PORT, Endpoint
from libs.events import EndpointObserved, Outcome
from libs.identity import compare_uuids, match
from libs.machine import Source, TalosMachine, dial_endpoint
from libs.rules import addresses
from libs.rules.facts import Facts, Picture, Reason, Settled

SPEC_TIME_STEP = timedelta(seconds=1)
"""managedFields has whole seconds: what was seen within the second of an edit may be from before it."""


class Verdict(msgspec.Struct, frozen=True):
    """An end to the chain of rules."""

    outcome: Outcome
    reason: Reason
    message: str


Rule = Callable[[Facts], Verdict | None]


def refuse(reason: Reason, message: str) -> Verdict:
    """Return a refusal."""
    return Verdict(Outcome.REFUSED, reason, message)


def machine_is_unknown(facts: Facts) -> Verdict | None:
    """No machine matches. The reconciler may register a new one."""
    if facts.rivals:
        return None
    if facts.machine is None:
        possible = f"; too little says that it is {', '.join(facts.hints)}" if facts.hints else ""
        return refuse(Reason.UNKNOWN_MACHINE, f"no machine matches{possible}")
    if facts.source is Source.DISCOVERY and facts.observation.identity is not None:
        compared = match(
            facts.machine.spec.identity,
            facts.observation.identity,
            shared=facts.shared,
            shown_by_others=facts.shown_by_others,
        )
        if not (compared.is_match or compared.is_conflict):
            return refuse(Reason.UNKNOWN_MACHINE, f"not the declared identity: {compared}")
    if facts.source in {Source.NODE, Source.LOOKUP} and not names_node(facts.machine, facts.observation):
        return refuse(Reason.UNKNOWN_MACHINE, "neither spec.hostname nor status.nodeName is this Node's name")
    return None


def identity_is_ambiguous(facts: Facts) -> Verdict | None:
    """Several machines match, or the signals contradict each other. Nobody is moved on such a word."""
    if facts.machine is None or facts.rivals:
        return refuse(Reason.AMBIGUOUS_IDENTITY, f"it could be several: {', '.join(facts.rivals)}")
    declared = facts.machine.spec.identity
    if facts.source is Source.DISCOVERY and facts.observation.identity is not None:
        compared = match(declared, facts.observation.identity, shared=facts.shared)
        if compared.is_conflict:
            return refuse(Reason.AMBIGUOUS_IDENTITY, f"the signals contradict each other: {compared}")
    node = facts.observation.node
    if node is not None and compare_uuids(declared.uuid, node.system_uuid) is False:
        return refuse(
            Reason.AMBIGUOUS_IDENTITY,
            f"Node {node.name} bears the machine's name, but its systemUUID {node.system_uuid} is another's",
        )
    return None


def nothing_moved(facts: Facts) -> Verdict | None:
    """The machine is dialled where it was seen."""
    if facts.machine is None or not is_at_dial_endpoint(facts):
        return None
    return Verdict(Outcome.UNCHANGED, Reason.UNCHANGED, f"dialled at {dial_endpoint(facts.machine)} already")


def no_address_is_dialable(facts: Facts) -> Verdict | None:
    """Every address is special, in a denied range or another machine's."""
    found = addresses.seen(facts)
    whys = [(one.text, addresses.why_not_dialable(one, facts)) for one in found]
    if any(not why for _, why in whys):
        return None
    named = "; ".join(f"{text}: {why}" for text, why in whys[:8])
    return refuse(Reason.ADDRESS_NOT_DIALABLE, named or "it lists no address")


def predates_spec(facts: Facts) -> Verdict | None:
    """The operator has had a later word on where the machine is."""
    if facts.machine is None:
        return None
    edited = spec_endpoint_time(facts.machine)
    created = facts.machine.metadata.creation_timestamp
    if edited is not None and facts.observed_at < edited + SPEC_TIME_STEP:
        return refuse(Reason.PREDATES_SPEC, f"spec.endpoint was set at {edited.isoformat()}")
    if edited is None and created is not None and facts.observed_at < created:
        return refuse(Reason.PREDATES_SPEC, f"the machine was created at {created.isoformat()}")
    return None


def is_superseded(facts: Facts) -> Verdict | None:
    """A newer observation of this machine was settled already; of two of one time the smaller id loses."""
    horizon = facts.now + facts.limits.clock_tolerance
    this, settled = Settled(facts.observed_at, facts.observation_id), facts.settled
    if settled is not None and settled.observed_at <= horizon and this < settled:
        return refuse(Reason.SUPERSEDED, f"{settled.observation_id} was made at {settled.observed_at.isoformat()}")
    recorded = facts.machine.status.observed_at if facts.machine is not None else None
    if recorded is not None and recorded <= horizon and facts.observed_at < recorded:
        return refuse(Reason.SUPERSEDED, f"status.observedAt is {recorded.isoformat()}")
    return None


def is_too_old(facts: Facts) -> Verdict | None:
    """The node may have moved since."""
    limits = facts.limits
    oldest = limits.discovery_age_max if facts.source is Source.DISCOVERY else limits.age_max
    age = facts.now - facts.observed_at
    if age <= oldest:
        return None
    return refuse(Reason.TOO_OLD, f"made {age.total_seconds():.0f} s ago, over {oldest.total_seconds():.0f} s")


def names_node(machine: TalosMachine, observation: EndpointObserved) -> bool:
    """Whether the observed Kubernetes Node bears the name that the operator fixed or an authenticated read found."""
    node = observation.node
    return node is not None and node.name != "" and node.name in {machine.spec.hostname, machine.status.node_name}


def spec_endpoint_time(machine: TalosMachine) -> datetime | None:
    """Return when whoever owns `spec.endpoint` last wrote; None when nobody is known to."""
    times = (
        entry.time
        for entry in machine.metadata.managed_fields
        if entry.time is not None and not entry.subresource and _owns_endpoint(entry.fields)
    )
    return max(times, default=None)


def is_at_dial_endpoint(facts: Facts) -> bool:
    """Whether the dial endpoint is among the observed addresses, and a picture shows one box only."""
    certificates = {one.fingerprint for one in facts.observation.addresses}
    if facts.source is Source.DISCOVERY and len(certificates) > 1:
        return False
    dials = addresses.dialled(facts)
    return any(one.endpoint in dials for one in addresses.seen(facts))


def certificates_at(dials: frozenset[Endpoint], facts: Facts) -> set[str]:
    """Return the certificates under which this identity lives at these endpoints, by every site's newest picture."""
    port = addresses.declared_port(facts.machine) if facts.machine is not None else DEFAULT_PORT
    return {
        one.fingerprint
        for picture in live_pictures(facts)
        for one in picture.addresses
        if addresses.endpoint_of(one.address, port) in dials
    }


def live_pictures(facts: Facts) -> tuple[Picture, ...]:
    """Return the pictures that are young enough to say where something is now."""
    oldest = facts.now - facts.limits.discovery_age_max
    return tuple(picture for picture in facts.pictures if picture.observed_at >= oldest)


def _owns_endpoint(fields: dict[str, object]) -> bool:
    spec = fields.get("f:spec")
    return isinstance(spec, dict) and "f:endpoint" in spec
