"""The objects, in memory, under one counter: every write gets the next revision, whatever it writes.

Objects are plain JSON values that nobody changes in place; an encoded copy is kept beside each.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from services.devapi import refusal
from services.devapi.ring import Change, Entry, Ring

Key = tuple[str, str]
"""Namespace (empty for cluster-wide kinds) and name."""

_encode = msgspec.json.Encoder().encode


class Collection:
    """All objects of one kind and their recent changes."""

    def __init__(self, ring: Ring) -> None:
        self.entries: dict[Key, Entry] = {}
        self.ring = ring

    def sorted(self, namespace: str = "") -> list[tuple[Key, Entry]]:
        """Return the entries in the order of their keys, which is the order of a list."""
        found = self.entries.items()
        return sorted((pair for pair in found if not namespace or pair[0][0] == namespace), key=lambda pair: pair[0])


class Store:
    """Every collection, by group and plural."""

    def __init__(self, *, history: int) -> None:
        """Keep the last `history` changes of each collection for watches."""
        # A restart must not re-use versions: a client that kept one from before would miss what lies between.
        self.revision = int(time.time()) * 1000
        self._history = history
        self._collections: dict[tuple[str, str], Collection] = {}

    def collection(self, resource: tuple[str, str]) -> Collection:
        """Return a kind's collection, made when it is first asked for."""
        found = self._collections.get(resource)
        if found is None:
            found = Collection(Ring(since=self.revision, size=self._history))
            self._collections[resource] = found
        return found

    def get(self, resource: tuple[str, str], key: Key) -> Entry | None:
        return self.collection(resource).entries.get(key)

    def put(self, resource: tuple[str, str], key: Key, item: dict[str, Any], *, bytes_max: int = 1 << 30) -> Entry:
        """Store an object under the next revision and return it with that resourceVersion."""
        collection = self.collection(resource)
        before = collection.entries.get(key)
        after = _entry(item, self.revision + 1)
        if len(after.data) > bytes_max:
            raise refusal.too_large(len(after.data), bytes_max)
        self.revision += 1
        collection.entries[key] = after
        collection.ring.add(Change(self.revision, before, after, None))
        return after

    def remove(self, resource: tuple[str, str], key: Key) -> Entry:
        """Remove an object and return its last state under the deletion's revision."""
        collection = self.collection(resource)
        self.revision += 1
        before = collection.entries.pop(key)
        gone = _entry(before.item, self.revision)
        collection.ring.add(Change(self.revision, before, None, gone))
        return gone

    def drop(self, resource: tuple[str, str]) -> None:
        """Forget a collection whose kind is gone; its watches end."""
        collection = self._collections.pop(resource, None)
        if collection is not None:
            collection.ring.close()

    def collections(self) -> dict[tuple[str, str], Collection]:
        return self._collections


def _entry(item: dict[str, Any], revision: int) -> Entry:
    stamped = {**item, "metadata": {**item["metadata"], "resourceVersion": str(revision)}}
    return Entry(stamped, revision, _encode(stamped))
