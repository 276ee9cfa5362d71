"""What was told lately: makes repeats one Event with a count, and keeps a noisy machine within bounds.

Kept in memory and bounded; after a restart a repeat simply becomes a new Event.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

BURST = 25
REFILL_SECONDS = 300.0
"""One more Event for each object every five minutes, after the burst: client-go's bounds."""
REMEMBERED_MAX = 4096


class Telling(msgspec.Struct, frozen=True):
    """One Event as it stands now; `count` over 1 means that it is there already."""

    name: str
    count: int
    first: datetime
    last: datetime


class _Bucket(msgspec.Struct):
    left: float
    at: datetime


class Told:
    """Remembers Events by object and wording, least recently told forgotten first."""

    def __init__(self) -> None:
        self._tellings: OrderedDict[tuple[str, ...], Telling] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def next(self, uid: str, name: str, *words: str, now: datetime | None = None) -> Telling | None:
        """Return the Event to write for these words about that object, or None when it has had too many."""
        now = now or datetime.now(UTC)
        if not self._may(uid, now):
            return None
        key = (uid, name, *words)
        old = self._tellings.get(key)
        if old is None:
            new = Telling(f"{name[:230]}.{secrets.token_hex(8)}", 1, now, now)
        else:
            new = msgspec.structs.replace(old, count=old.count + 1, last=now)
        _remember(self._tellings, key, new)
        return new

    def _may(self, uid: str, now: datetime) -> bool:
        bucket = self._buckets.get(uid) or _Bucket(BURST, now)
        passed = max(0.0, (now - bucket.at).total_seconds())
        left = min(float(BURST), bucket.left + passed / REFILL_SECONDS)
        allowed = left >= 1
        _remember(self._buckets, uid, _Bucket(left - 1 if allowed else left, now))
        return allowed


K = TypeVar("K")
V = TypeVar("V")


def _remember(entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > REMEMBERED_MAX:
        entries.popitem(last=False)
