"""The reads: one object, a list (in pages that all show one moment), and a watch from a version on."""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from services.devapi import refusal, selectors
from services.devapi.calls import Call
from services.devapi.refusal import Cause
from services.devapi.ring import Change, Entry, TooOldError
from services.devapi.selectors import Matches
from services.devapi.store import Collection, Key, Store

BOOKMARK_SECONDS = 60.0
WATCH_SECONDS = (1800.0, 3600.0)
"""How long a watch lasts that names no time, at random in between."""


class Page(msgspec.Struct, frozen=True):
    """A part of a list, or all of it."""

    entries: list[Entry]
    revision: int
    more: str = ""
    remaining: int = 0


class Reads:
    """Everything that only looks at the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stopping = False

    def get(self, call: Call) -> Entry:
        entry = self._store.get(call.kind.resource, call.key)
        if entry is None:
            raise call.not_found()
        return entry

    def list(self, call: Call) -> Page:
        """Return the selected objects, at most `limit` of them; `continue` goes on as of the first page."""
        matches = self._selected(call)
        collection = self._store.collection(call.kind.resource)
        limit = _number(call.options, "limit")
        token = call.options.get("continue", "")
        revision, after = _decoded(token) if token else (self._asked_revision(call), None)
        pairs = _as_of(collection, revision, self._store.revision)
        found = [
            (key, entry)
            for key, entry in pairs
            if (not call.namespace or key[0] == call.namespace) and (after is None or key > after)
            if matches(entry.item)
        ]
        if not limit or len(found) <= limit:
            return Page([entry for _, entry in found], revision)
        shown, rest = found[:limit], len(found) - limit
        return Page([entry for _, entry in shown], revision, _encoded(revision, shown[-1][0]), rest)

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for collection in self._store.collections().values():
            collection.ring.close()

    def watch(self, call: Call, event: Callable[[str, Entry], bytes]) -> AsyncIterator[bytes]:
        """Return the lines of a watch, each made by `event`; refuses what devapi cannot watch at once."""
        if call.options.get("sendInitialEvents"):
            message = "Forbidden: devapi does not offer watches that begin with a list; list, then watch"
            cause = Cause(field="sendInitialEvents", reason="FieldValueForbidden", message=message)
            raise refusal.invalid("ListOptions", "meta.k8s.io", "", [cause])
        revision = _number(call.options, "resourceVersion")
        seconds = _number(call.options, "timeoutSeconds") or random.uniform(*WATCH_SECONDS)  # noqa: S311 - spreads load
        return self._lines(call, event, revision, time.monotonic() + seconds)

    async def _lines(
        self, call: Call, event: Callable[[str, Entry], bytes], revision: int, deadline: float
    ) -> AsyncIterator[bytes]:
        matches = self._selected(call)
        collection = self._store.collection(call.kind.resource)
        bookmarks = call.options.get("allowWatchBookmarks") in {"true", "1"}
        if not revision:
            revision = self._store.revision
            found = [entry for _, entry in collection.sorted(call.namespace) if matches(entry.item)]
            if found:
                yield b"".join([event("ADDED", entry) for entry in found])
        with collection.ring.waiting() as news:
            bookmark_at = time.monotonic() + BOOKMARK_SECONDS
            while not self._stopping:
                news.clear()
                now_revision = self._store.revision
                try:
                    changes = collection.ring.after(revision)
                except TooOldError:
                    if not self._stopping:
                        yield _too_old(revision)
                    return
                # The collection has no other change up to here, whatever happened to other kinds.
                revision = max(revision, now_revision)
                lines = [line for change in changes if (line := _line(change, call.namespace, matches, event))]
                if lines:
                    yield b"".join(lines)
                left = deadline - time.monotonic()
                due = bookmark_at - time.monotonic()
                if bookmarks and min(left, due) <= 0:
                    yield _bookmark(call, revision)
                    bookmark_at = time.monotonic() + BOOKMARK_SECONDS
                if left <= 0:
                    return
                await _wait(news, min(left, max(due, 0.001)) if bookmarks else left)

    def _selected(self, call: Call) -> Matches:
        fields = call.options.get("fieldSelector", "")
        return selectors.parse(call.options.get("labelSelector", ""), fields, call.kind.plural)

    def _asked_revision(self, call: Call) -> int:
        asked = _number(call.options, "resourceVersion")
        if asked > self._store.revision:
            raise refusal.version_too_large(asked, self._store.revision)
        return asked if call.options.get("resourceVersionMatch") == "Exact" else self._store.revision


async def _wait(news: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


def _as_of(collection: Collection, revision: int, current: int) -> list[tuple[Key, Entry]]:
    """Return a collection as it was, by undoing what has happened since."""
    if revision == current:
        return collection.sorted()
    try:
        changes = collection.ring.after(revision)
    except TooOldError:
        raise refusal.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter."
        ) from None
    entries = dict(collection.entries)
    for change in reversed(changes):
        key = _key(change)
        if change.before is None:
            entries.pop(key, None)
        else:
            entries[key] = change.before
    return sorted(entries.items(), key=lambda pair: pair[0])


def _key(change: Change) -> Key:
    entry = change.after or change.gone
    assert entry is not None  # noqa: S101 - a change leaves something or removes something
    metadata = entry.item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _line(change: Change, namespace: str, matches: Matches, event: Callable[[str, Entry], bytes]) -> bytes | None:
    """Return a change as a watcher sees it who knows only the objects that its selectors match."""
    if namespace and _key(change)[0] != namespace:
        return None
    was = change.before is not None and matches(change.before.item)
    if change.after is None:
        return event("DELETED", change.gone) if was and change.gone else None
    if matches(change.after.item):
        return event("MODIFIED" if was else "ADDED", change.after)
    return event("DELETED", change.after) if was else None


def _bookmark(call: Call, revision: int) -> bytes:
    item = {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": {"resourceVersion": str(revision)},
    }
    return msgspec.json.encode({"type": "BOOKMARK", "object": item}) + b"\n"


def _too_old(revision: int) -> bytes:
    status = refusal.expired(f"too old resource version: {revision}").status()
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


def _number(options: Any, name: str) -> int:
    text = options.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise refusal.bad_request(f'Invalid value: "{text}": {name} must be a number')
    return int(text)


def _encoded(revision: int, key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([revision, *key])).decode()


def _decoded(token: str) -> tuple[int, Key]:
    try:
        revision, namespace, name = msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str, str])
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise refusal.bad_request("continue key is not valid") from error
    return revision, (namespace, name)
