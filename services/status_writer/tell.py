"""The event that tells of a decision: its content, its subject and its id."""

from __future__ import annotations

import msgspec

from libs import identity
from libs.events import EndpointDecided, MachineRef, Outcome, subjects
from libs.machine import TalosMachine
from libs.rules import Decision
from services.status_writer.news import News

MESSAGE_MAX = 1024
ADDRESSES_MAX = 16


class Letter(msgspec.Struct, frozen=True):
    """An event ready to be published."""

    event: EndpointDecided
    subject: str
    message_id: str


def letter(news: News, decision: Decision, machine: TalosMachine | None, *, replaces: str) -> Letter:
    """Make the event. Delivered again, an observation gives the same id, so the trail has it once.

    `replaces` is the `spec.endpoint` that was decided against.
    """
    about = None
    if machine is not None:
        about = MachineRef(namespace=machine.metadata.namespace, name=machine.metadata.name, uid=machine.metadata.uid)
    event = EndpointDecided(
        outcome=decision.outcome,
        reason=decision.reason,
        rule=decision.rule,
        message=decision.message[:MESSAGE_MAX],
        source=news.source,
        machine=about,
        before=decision.before,
        after=decision.after,
        replaces=replaces,
        observed_at=news.made_at,
        observation_id=news.id,
        observation=news.observed,
    )
    kind = "decided" if decision.outcome is Outcome.RECORDED else "refused"
    return Letter(event, _subject(news, event), f"{kind}/{news.id}")


def with_repeats(one: Letter, repeats: int) -> Letter:
    """Say how often it was met since it was last published."""
    return msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, repeats=repeats))


def shortened(one: Letter) -> Letter:
    """Leave out what makes an event too large that quotes one of nearly the largest size."""
    observed = one.event.observation
    seen = observed.identity
    if seen is not None:
        seen = msgspec.structs.replace(seen, mac_addresses=seen.mac_addresses[:ADDRESSES_MAX])
    observed = msgspec.structs.replace(observed, addresses=observed.addresses[:ADDRESSES_MAX], identity=seen)
    return msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, observation=observed))


def log_keys(event: EndpointDecided) -> dict[str, str]:
    """Return what a log line about it holds."""
    keys = {"reason": event.reason, "rule": event.rule, "source": str(event.source), "message": event.message}
    if event.machine is not None:
        keys |= {"machine": f"{event.machine.namespace}/{event.machine.name}", "before": event.before}
        keys |= {"after": event.after} if event.outcome is Outcome.RECORDED else {}
    return keys


def _subject(news: News, event: EndpointDecided) -> str:
    if event.machine is not None:
        return subjects.decided(event.outcome, event.machine.namespace, event.machine.name)
    if news.observed.identity is not None:
        return subjects.decided_unmatched(event.outcome, identity.key(news.observed.identity))
    name = news.observed.node.name if news.observed.node is not None else ""
    return subjects.decided_unmatched(event.outcome, f"node-{name}")
