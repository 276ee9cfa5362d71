"""A collection's recent changes, for watches: bounded, so that who stays away too long has to list again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An object as stored. Never changed in place; a write makes a new one."""

    item: dict[str, Any]
    revision: int
    data: bytes
    """The object as JSON, encoded once for all readers."""


class Change(NamedTuple):
    """One write: what was, what is. The later of the two carries the change's revision."""

    revision: int
    before: Entry | None
    after: Entry | None
    gone: Entry | None
    """For a deletion, the last state under the deletion's own revision."""


class TooOldError(Exception):
    """The changes after that revision are no longer all known."""


class Ring:
    """The newest changes of one collection, and who waits for more."""

    def __init__(self, *, since: int, size: int) -> None:
        """Begin with nothing to tell about what came before revision `since`."""
        self._changes: deque[Change] = deque(maxlen=size)
        self._forgotten = since
        """The revision of the newest change that is not known any more."""
        self._waiting: set[asyncio.Event] = set()

    def add(self, change: Change) -> None:
        if len(self._changes) == self._changes.maxlen:
            self._forgotten = self._changes[0].revision
        self._changes.append(change)
        for event in self._waiting:
            event.set()

    def after(self, revision: int) -> list[Change]:
        """Return all changes after that revision, in order; `TooOldError` when some are forgotten."""
        if revision < self._forgotten:
            raise TooOldError
        found = []
        for change in reversed(self._changes):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def close(self) -> None:
        """Wake all who wait, for the last time: the collection is gone."""
        self._forgotten = 1 << 62
        for event in self._waiting:
            event.set()

    @contextmanager
    def waiting(self) -> Iterator[asyncio.Event]:
        """Hold an event that every change sets."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)
