"""The table: what becomes of an observation is what the first objection says, and the order is a contract."""

from __future__ import annotations

from libs.endpoint import Endpoint
from libs.events import EndpointObserved, Outcome
from libs.machine import Source, dial_endpoint
from libs.rules import addresses, objections, sources
from libs.rules.facts import Decision, Facts, Reason
from libs.rules.objections import Rule, Verdict

RULES: tuple[Rule, ...] = (
    objections.machine_is_unknown,  # the other rules speak of a machine
    objections.identity_is_ambiguous,  # of one machine; nobody is moved on a word that may be about another
    objections.nothing_moved,  # before anything objects: what changes nothing needs no defence, and is most of all
    objections.no_address_is_dialable,
    objections.predates_spec,  # the operator's word stands against all that is older
    objections.is_superseded,  # with the next: the outcome does not depend on the order of delivery
    objections.is_too_old,
)
"""After these come `sources.BY_SOURCE`, the objections of the kind of evidence at hand."""

NOTHING_OBJECTS = "nothing_objects"
"""What stands for the rule in the decision to record."""


def decide(facts: Facts) -> Decision:
    """Return what becomes of the observation. Nothing but the facts enters it, and nothing is changed by it."""
    for rule in (*RULES, *sources.BY_SOURCE[facts.source]):
        verdict = rule(facts)
        if verdict is not None:
            return _decision(facts, rule.__name__, verdict)
    there = sources.chosen(facts)
    if facts.machine is None or there is None:
        # Each source's objections end with one that fails where there is nothing to choose; a read has its one
        # address, which passed `no_address_is_dialable` and is not where the machine is dialled.
        verdict = objections.refuse(Reason.ADDRESS_NOT_DIALABLE, "no address is left to choose")
        return _decision(facts, "no_address_is_left", verdict)
    after = addresses.as_written(facts.machine, there)
    return _decision(facts, NOTHING_OBJECTS, sources.recorded(facts, str(there)), after=after)


def recorded_before(facts: Facts, *, before: str) -> Decision:
    """Return the decision of an observation that status holds already, made once more to be told.

    `before` is where the machine was dialled before that. The reason is today's: the machine may have been read since.
    """
    after = facts.machine.status.observed_endpoint if facts.machine is not None else ""
    verdict = sources.recorded(facts, after)
    return Decision(
        outcome=verdict.outcome,
        reason=verdict.reason,
        rule=NOTHING_OBJECTS,
        message=verdict.message,
        before=before,
        after=after,
        settles=True,
    )


def lists_dial_endpoint(dials: frozenset[Endpoint], port: int, source: Source, observation: EndpointObserved) -> bool:
    """Whether an observation changes nothing, by what is known without a live read.

    The same answer as the rule `nothing_moved`, for a machine that is dialled at `dials` (an address, not a DNS
    name) on `port`. Cheap: it decides thousands of observations a second.
    """
    listed = observation.addresses
    if source is Source.DISCOVERY and len(listed) > 1:
        first = listed[0].fingerprint
        if any(one.fingerprint != first for one in listed):
            return False
    return any(addresses.endpoint_of(one.address, port) in dials for one in listed)


def _decision(facts: Facts, rule: str, verdict: Verdict, *, after: str = "") -> Decision:
    before = dial_endpoint(facts.machine) if facts.machine is not None else ""
    return Decision(
        outcome=verdict.outcome,
        reason=verdict.reason,
        rule=rule,
        message=verdict.message,
        before=before,
        after=after or before,
        settles=_settles(facts, verdict.outcome),
    )


def _settles(facts: Facts, outcome: Outcome) -> bool:
    if facts.machine is None or outcome is Outcome.REFUSED:
        return False
    return outcome is Outcome.RECORDED or sources.would_be_believed(facts.machine, facts.source, facts.observation)
