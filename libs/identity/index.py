"""Finds, among thousands of declared identities, those that a seen one matches or contradicts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from libs.identity.matching import Match, match_signals
from libs.identity.model import Identity
from libs.identity.signals import Signals, normalise

CROWD = 16
"""A value that more machines than this declare identifies none of them; it is ignored, which bounds the work."""

K = TypeVar("K", bound=Hashable)


class Found(msgspec.Struct, Generic[K], frozen=True):
    """Who a seen identity may be, each with how it compares, in no particular order."""

    matching: dict[K, Match] = {}
    conflicting: dict[K, Match] = {}
    weak: dict[K, Match] = {}
    """These agree and do not contradict, but too little speaks for them."""

    @property
    def only(self) -> K | None:
        """The one that matches, if exactly one does and no other is in conflict."""
        return next(iter(self.matching)) if len(self.matching) == 1 and not self.conflicting else None


class Index(Generic[K]):
    """Declared identities by each of their usable values; a lookup costs a few dictionary reads per signal."""

    def __init__(self, *, crowd: int = CROWD) -> None:
        """`crowd`: a value that more than so many declare identifies none of them and is ignored."""
        self._crowd = crowd
        self._signals: dict[K, Signals] = {}
        self._holders: dict[str, set[K]] = {}
        self.version = 0
        """Changes whenever the answer to a lookup might have."""

    def __len__(self) -> int:
        return len(self._signals)

    def put(self, key: K, identity: Identity) -> None:
        """Add one, or change what it declares."""
        signals = normalise(identity)
        if self._signals.get(key) == signals:
            return
        self.remove(key)
        self._signals[key] = signals
        for token in signals.tokens:
            self._holders.setdefault(token, set()).add(key)
        self.version += 1

    def remove(self, key: K) -> None:
        """Forget one; an unknown one is no fault."""
        signals = self._signals.pop(key, None)
        if signals is None:
            return
        for token in signals.tokens:
            holders = self._holders[token]
            holders.discard(key)
            if not holders:
                del self._holders[token]
        self.version += 1

    def holders(self, token: str) -> frozenset[K]:
        """Return who declares this value."""
        return frozenset(self._holders.get(token, ()))

    def find(
        self,
        seen: Identity,
        *,
        shared: frozenset[str] = frozenset(),
        shown_by_others: frozenset[str] = frozenset(),
    ) -> Found[K]:
        """Compare a seen identity with all that have any value in common with it; see `match` for the arguments."""
        signals = normalise(seen)
        held = {token: self._holders[token] for token in signals.tokens - shared if token in self._holders}
        crowded = frozenset(token for token, holders in held.items() if len(holders) > self._crowd)
        unusable = shared | crowded
        common = shown_by_others | {token for token, holders in held.items() if len(holders) > 1}
        signals = signals.without(unusable)
        found: Found[K] = Found({}, {}, {})
        for key in {key for token, holders in held.items() if token not in crowded for key in holders}:
            compared = match_signals(self._signals[key].without(unusable), signals, shown_by_others=common)
            if compared.is_match:
                found.matching[key] = compared
            elif compared.is_conflict:
                found.conflicting[key] = compared
            elif compared.is_weak:
                found.weak[key] = compared
        return found
