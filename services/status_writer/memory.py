"""What the writer remembers between observations: what was settled, what was recorded, which refusals repeat.

All of it is bounded and can be lost: it is rebuilt at start from the newest message of each subject.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

import msgspec

from libs.events import EndpointDecided
from libs.rules import Settled

REPEAT_AFTER = timedelta(hours=1)
"""A refusal with the same facts is published again after this."""
REFUSALS_MAX = 20_000
AN_HOUR_MAX = 60
"""Refusals of one subject that are published in an hour: what a liar makes new is up to him."""


class _Refusal(msgspec.Struct):
    published_at: datetime
    repeats: int = 0


class Settlements:
    """The newest observation of each machine that was recorded or changed nothing, by the machine's UID."""

    def __init__(self) -> None:
        self._newest: dict[str, Settled] = {}
        self._recorded: dict[str, tuple[str, str]] = {}

    def settle(self, uid: str, made_at: datetime, observation_id: str) -> None:
        """Remember an observation unless a newer one is known."""
        newest, this = self._newest.get(uid), Settled(made_at, observation_id)
        if newest is None or newest < this:
            self._newest[uid] = this

    def newest(self, uid: str) -> Settled | None:
        """Return the newest observation settled."""
        return self._newest.get(uid)

    def record(self, uid: str, *, replaces: str, after: str) -> None:
        """Remember what was recorded, by the stream's word."""
        self._recorded[uid] = (replaces, after)

    def dialled_before(self, uid: str, declared: str) -> str:
        """Return where a machine was dialled by the last published record, as far as that is known."""
        replaces, after = self._recorded.get(uid, ("", ""))
        return after if after and replaces == declared else declared

    def forget(self, uid: str) -> None:
        """Drop what is known of a deleted machine."""
        self._newest.pop(uid, None)
        self._recorded.pop(uid, None)


class Refusals:
    """Which refusals were published within the hour; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, _Refusal] = OrderedDict()
        self._published: OrderedDict[str, _Refusal] = OrderedDict()
        """By subject: since when, and how many."""

    def is_repeat(self, subject: str, event: EndpointDecided, now: datetime) -> bool:
        """Whether the same was published lately, or too much of this subject was; if so it is counted."""
        known = self._known.get(_facts(subject, event))
        if known is None or now - known.published_at >= REPEAT_AFTER:
            hour = self._published.get(subject)
            return hour is not None and hour.repeats >= AN_HOUR_MAX and now - hour.published_at < REPEAT_AFTER
        known.repeats += 1
        return True

    def repeats(self, subject: str, event: EndpointDecided) -> int:
        """Return how often it was met since it was last published."""
        known = self._known.get(_facts(subject, event))
        return known.repeats if known is not None else 0

    def published(self, subject: str, event: EndpointDecided, at: datetime) -> None:
        """Remember that it was published."""
        facts = _facts(subject, event)
        self._known[facts] = _Refusal(at)
        self._known.move_to_end(facts)
        hour = self._published.get(subject)
        if hour is None or at - hour.published_at >= REPEAT_AFTER:
            hour = self._published[subject] = _Refusal(at)
            self._published.move_to_end(subject)
        hour.repeats += 1
        for kept in (self._known, self._published):
            if len(kept) > REFUSALS_MAX:
                kept.popitem(last=False)


def _facts(subject: str, event: EndpointDecided) -> int:
    """Return what makes two refusals the same: not their times, nor the order of addresses, nor their certificates.

    A box can show another certificate at every sweep. Hashed, since a picture may hold hundreds of addresses.
    """
    uid = event.machine.uid if event.machine is not None else ""
    addresses = frozenset(seen.address for seen in event.observation.addresses)
    return hash((subject, uid, event.source, event.reason, event.before, addresses))
