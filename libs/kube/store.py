"""A live copy of a collection: list, then watch, for ever, whatever the server does meanwhile.

The library's own watch reconnects without pause, hangs on a mute server and loses its place; this one always
has both a server-side and a client-side time-out, backs off with jitter, goes on from the last version it saw,
and after a 410 (as HTTP status or inside the stream) lists again and reports only what really changed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Generic, Protocol

import msgspec

from libs import runtime
from libs.kube import decode, errors
from libs.kube.api import Api
from libs.kube.decode import Key
from libs.kube.objects import Resource, T

_log = runtime.log("kube")

SILENCES_MAX = 2
"""After so many watches in a row that told nothing at all, a list finds out what is true."""


class Health(Protocol):
    """Where a store says whether it can be relied on."""

    def waiting(self, part: str, why: str) -> None: ...
    def fine(self, part: str) -> None: ...


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The store's patience, in seconds."""

    watch: float = 300.0
    """After this the server ends a watch normally; lengthened at random so that watches do not end together."""
    idle: float = 75.0
    """Silence after which a watch is renewed. API servers send a bookmark every minute, but for the first
    two minutes of a collection that never changed."""
    short: float = 5.0
    """A watch that ends sooner is followed by a pause, however it ended."""
    relist: float = 3600.0
    """After this a normally ended watch is followed by a list, in case a change was never told."""
    pause_first: float = 1.0
    pause_limit: float = 15.0


class Store(Generic[T]):
    """The collection as last heard; `items` is read freely and never changed by others.

    `on_change(old, new)` is called synchronously for every real change, after `items` has it: new None means
    deleted, also when that happened during an outage; old None means not seen before. One object may be
    replaced by a namesake with another UID: then both calls are made. Objects that cannot be read are
    left out, or stay as they were last readable. Kept objects are slimmed: a decision needs a live read anyway.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        namespace: str = "",
        on_change: Callable[[T | None, T | None], None] | None = None,
        health: Health | None = None,
        *,
        timing: Timing | None = None,
    ) -> None:
        self.items: dict[Key, T] = {}
        self.oddities: dict[Key, decode.Oddity] = {}
        """Objects that are there but could not be read."""
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._on_change = on_change or (lambda _old, _new: None)
        self._health = health
        self._timing = timing or Timing()
        self._backoff = runtime.Backoff(self._timing.pause_first, self._timing.pause_limit)
        self._version = ""
        self._listed_at = float("-inf")
        self._heard_at = float("-inf")
        self._synced = asyncio.Event()
        self._silences = 0
        self._trouble = ""

    @property
    def stale_seconds(self) -> float:
        """Time since the server last told or confirmed what there is; infinite before the first list."""
        return time.monotonic() - self._heard_at

    async def synced(self) -> None:
        """Wait until the collection was listed once."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the collection until cancelled. An exception from `on_change` ends it."""
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            pause = await self._round()

    async def _round(self) -> float:
        """List if need be, watch to the end, and return how long to pause."""
        try:
            if not self._version or time.monotonic() - self._listed_at > self._timing.relist:
                await self._list()
            lasted, changes = await self._watch()
        except errors.KubeError as error:
            return self._after(error)
        if changes or lasted >= self._timing.short:
            self._backoff.reset()
        # A server that ends every watch at once would otherwise be asked without pause.
        return 0.0 if lasted >= self._timing.short else self._backoff.next()

    def _after(self, error: errors.KubeError) -> float:
        pause = self._backoff.next()
        if isinstance(error, errors.Expired):
            self._version = ""  # nothing is wrong: the next round lists again, the pause spreads those who do
            _log.info("listing again", what=self._resource.plural, why=str(error))
            return pause
        if isinstance(error, errors.Unavailable):
            pause = max(pause, min(error.retry_after_seconds, self._timing.pause_limit))
        self._say(str(error))
        return pause

    async def _list(self) -> None:
        listing = await self._api.list(self._resource, self._namespace)
        self._listed_at = self._heard_at = time.monotonic()
        self._version = listing.resource_version
        there = {oddity.key for oddity in listing.oddities}
        for oddity in listing.oddities:
            self._set_aside(oddity)
        for item in listing.items:
            there.add(_key(item))
            self._put(item)
        for key in self.items.keys() - there:
            self._drop(key)
        for key in self.oddities.keys() - there:
            del self.oddities[key]
        self._synced.set()

    async def _watch(self) -> tuple[float, int]:
        """Watch until the server ends it; return how long that took and how many changes came."""
        timing = self._timing
        started, changes = time.monotonic(), 0
        seconds = timing.watch * random.uniform(1.0, 1.3)  # noqa: S311 - spreads load, guards nothing
        async with self._api.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            seconds=seconds,
            idle_seconds=timing.idle,
        ) as lines:
            self._heard_at = time.monotonic()  # it goes on from our version, so nothing was missed
            self._say("")
            while (batch := await lines.read()) is not None:
                self._heard_at = time.monotonic()
                self._silences = 0
                for line in batch:
                    changes += self._take(line)
        self._silences = self._silences + 1 if lines.fell_silent else 0
        if self._silences >= SILENCES_MAX:
            self._silences, self._version = 0, ""
        return time.monotonic() - started, changes

    def _take(self, data: bytes) -> int:
        """Take in one line of a watch; return 1 if it changed anything."""
        action = f"watch {self._resource.plural}"
        try:
            line = decode.line(action, data)
            if line.type == "ERROR":
                raise errors.from_status(action, 500, decode.status(line.object), secret=False)
            if line.type not in {"ADDED", "MODIFIED", "DELETED"}:  # BOOKMARK, or a kind from the future
                self._version = decode.bare(action, line.object).metadata.resource_version or self._version
                return 0
            bare = decode.bare(action, line.object)
        except errors.Unavailable:
            self._version = ""  # our place in the stream is in doubt
            raise
        self._version = bare.metadata.resource_version
        if line.type == "DELETED":
            return self._drop(bare.key)
        item = decode.one(self._resource, line.object)
        return self._set_aside(item) if isinstance(item, decode.Oddity) else self._put(item)

    def _put(self, item: T) -> int:
        key = _key(item)
        self.oddities.pop(key, None)
        old = self.items.get(key)
        if old is not None and _same(old, item):
            return 0  # a replay, or a list that tells nothing new
        if old is not None and old.metadata.uid != item.metadata.uid:
            self._drop(key)
            old = None
        new = self._resource.slim(item) if self._resource.slim else item
        self.items[key] = new
        self._on_change(old, new)
        return 1

    def _drop(self, key: Key) -> int:
        self.oddities.pop(key, None)
        old = self.items.pop(key, None)
        if old is None:
            return 0
        self._on_change(old, None)
        return 1

    def _set_aside(self, oddity: decode.Oddity) -> int:
        if oddity.key not in self.oddities:
            where = "/".join(part for part in oddity.key if part)
            _log.warning("object not readable", what=self._resource.plural, object=where, error=oddity.why)
        self.oddities[oddity.key] = oddity
        return 0

    def _say(self, trouble: str) -> None:
        """Report to health, and log once for each different trouble; no text means that all is well."""
        part = f"kubernetes {self._resource.plural}"
        if self._health is not None:
            if trouble:
                self._health.waiting(part, trouble)
            else:
                self._health.fine(part)
        if trouble != self._trouble:
            if trouble:
                _log.warning("waiting for the Kubernetes API", what=self._resource.plural, why=trouble)
            else:
                _log.info("following", what=self._resource.plural, items=len(self.items))
        self._trouble = trouble


def _key(item: T) -> Key:
    return item.metadata.namespace, item.metadata.name


def _same(old: T, new: T) -> bool:
    return old.metadata.uid == new.metadata.uid and old.metadata.resource_version == new.metadata.resource_version
