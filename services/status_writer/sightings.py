"""What discovery sees: every site's newest picture of each box, which values other boxes show, which are shared.

A box is an identity here: whoever presents it, at however many addresses. Values that two live boxes show
whose other signals differ identify neither; that is learned for good, and used for discovery's matching only.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

from libs import runtime
from libs.events import EndpointObserved
from libs.events.subjects import site_of
from libs.identity import Identity, Signals, match_signals, normalise
from libs.rules import Picture

ALIVE = timedelta(minutes=5)
FORGET = timedelta(hours=1)
"""As the stream does."""
PICTURES_MAX = 100_000
SHARED_MAX = 10_000
RELATIVES_MAX = 64

_log = runtime.log("sightings")
_normalise = lru_cache(maxsize=16_384)(normalise)


class Box:
    """One identity and where it is seen."""

    __slots__ = ("first_seen", "identity", "pictures", "relatives", "signals", "version")

    def __init__(self, identity: Identity, signals: Signals, first_seen: datetime) -> None:
        self.identity = identity
        self.signals = signals
        self.first_seen = first_seen
        self.pictures: dict[str, Picture] = {}
        """By subject."""
        self.relatives: tuple[Box, ...] = ()
        """Other boxes that show one of its values, as of `version`."""
        self.version = -1

    @property
    def addresses(self) -> set[str]:
        """Where it answers, at any site."""
        return {seen.address for picture in self.pictures.values() for seen in picture.addresses}


class Sightings:
    """The newest pictures, by subject and by box; bounded in number and in age."""

    def __init__(self, shared: Iterable[str] = ()) -> None:
        self.shared = frozenset(shared)
        self.version = 0
        """Changes whenever boxes come or go or a shared value is learned."""
        self._by_subject: dict[str, Box] = {}
        self._boxes: dict[Signals, Box] = {}
        self._holders: dict[str, set[Signals]] = {}

    def __len__(self) -> int:
        return len(self._by_subject)

    def take(self, subject: str, observed: EndpointObserved, identity: Identity, made_at: datetime) -> Box:
        """Take in a picture and return its box. An older picture than the known one changes nothing."""
        box = self._by_subject.get(subject)
        if box is None or (box.identity != identity and box.signals != _normalise(identity)):
            box = self._move(subject, box, identity, made_at)
        old = box.pictures.get(subject)
        if old is None or made_at >= old.observed_at:
            box.pictures[subject] = Picture(
                site=old.site if old is not None else site_of(subject) or "",
                observed_at=made_at,
                addresses=observed.addresses,
            )
            if self._relatives(box):
                self._learn(box, made_at)
        return box

    def shown_by_others(self, box: Box, now: datetime) -> frozenset[str]:
        """Return the box's values that another living box shows as well."""
        tokens = box.signals.tokens
        return frozenset().union(
            *(tokens & other.signals.tokens for other in self._relatives(box) if _is_alive(other, now))
        )

    def forget(self, now: datetime) -> None:
        """Drop pictures that the stream has dropped as well."""
        old = [subject for subject, box in self._by_subject.items() if now - box.pictures[subject].observed_at > FORGET]
        for subject in old:
            self._drop(subject)

    def learn(self, tokens: Iterable[str]) -> None:
        """Take in values known to be shared."""
        new = frozenset(tokens) - self.shared
        if new and len(self.shared) + len(new) <= SHARED_MAX:
            self.shared |= new
            self.version += 1
            _log.warning("values are shared by several boxes and identify none", values=sorted(new))

    def _move(self, subject: str, old: Box | None, identity: Identity, made_at: datetime) -> Box:
        """Give a new subject, or one that now shows another identity, its box."""
        if old is not None:
            self._drop(subject)
        elif len(self._by_subject) >= PICTURES_MAX:
            self._drop(next(iter(self._by_subject)))
        signals = _normalise(identity)
        box = self._boxes.get(signals)
        if box is None:
            box = self._boxes[signals] = Box(identity, signals, made_at)
            for token in signals.tokens:
                self._holders.setdefault(token, set()).add(signals)
            self.version += 1
        self._by_subject[subject] = box
        return box

    def _drop(self, subject: str) -> None:
        box = self._by_subject.pop(subject)
        box.pictures.pop(subject, None)
        if box.pictures:
            return
        del self._boxes[box.signals]
        for token in box.signals.tokens:
            holders = self._holders[token]
            holders.discard(box.signals)
            if not holders:
                del self._holders[token]
        self.version += 1

    def _relatives(self, box: Box) -> tuple[Box, ...]:
        if box.version != self.version:
            others = {signals for token in box.signals.tokens for signals in self._holders.get(token, ())}
            others.discard(box.signals)
            box.relatives = tuple(self._boxes[signals] for signals in list(others)[:RELATIVES_MAX])
            box.version = self.version
        return box.relatives

    def _learn(self, box: Box, made_at: datetime) -> None:
        """Compare a box with its relatives.

        It counts only when this box was seen before the other was and again after it: what one box showed
        before and after a change of parts is not two boxes.
        """
        tokens = box.signals.tokens - self.shared
        for other in box.relatives:
            common = tokens & other.signals.tokens
            if not common or not _is_alive(other, made_at) or not box.first_seen <= other.first_seen <= made_at:
                continue
            for token in common:
                rest = frozenset({token})
                compared = match_signals(box.signals.without(rest), other.signals.without(rest))
                if compared.contradicting and box.addresses.isdisjoint(other.addresses):
                    self.learn(rest)


def _is_alive(box: Box, now: datetime) -> bool:
    return any(picture.addresses and now - picture.observed_at <= ALIVE for picture in box.pictures.values())
