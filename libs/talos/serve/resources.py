"""A node's resources in memory, with the versions, order and watches of COSI.

Whoever plays the node says what the resources are now; the store finds out what was created, updated and
destroyed, and tells the watchers. All of it is lost with the boot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum

WATCH_BUFFER = 1024
"""Events that a slow watcher may lag behind before it gets one error and nothing more."""


@dataclass(frozen=True, order=True)
class Key:
    """Where a resource is found; types are compared as written, like the real store does."""

    namespace: str
    type: str
    id: str


@dataclass(frozen=True)
class Spec:
    """A resource's content in both forms that travel; `proto` is empty where Talos has no such form."""

    proto: bytes
    yaml: str
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Item:
    """A resource of one version."""

    key: Key
    spec: Spec
    version: int
    created: float
    updated: float


class EventType(IntEnum):
    """What happened, by its number on the wire."""

    CREATED = 0
    UPDATED = 1
    DESTROYED = 2
    BOOTSTRAPPED = 3
    ERRORED = 4


@dataclass(frozen=True)
class Event:
    """One change of one resource."""

    type: EventType
    item: Item
    old: Item | None = None


@dataclass
class Watcher:
    """What one watch has not sent yet."""

    namespace: str
    type: str
    id: str | None
    wake: Callable[[], None]
    events: deque[Event] = field(default_factory=deque)
    overrun: bool = False

    def offer(self, event: Event) -> None:
        key = event.item.key
        if (key.namespace, key.type) != (self.namespace, self.type) or self.id not in (None, key.id):
            return
        if len(self.events) >= WATCH_BUFFER:
            self.overrun = True
        else:
            self.events.append(event)
        self.wake()


class Resources:
    """The store of one boot."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._items: dict[Key, Item] = {}
        self._watchers: list[Watcher] = []

    def become(self, wanted: Mapping[Key, Spec]) -> None:
        """Make these the resources: versions go up where a spec differs, and watchers are told."""
        now = self._clock()
        for key in sorted(self._items.keys() - wanted.keys()):
            self._tell(Event(EventType.DESTROYED, self._items.pop(key)))
        for key in sorted(wanted):
            old = self._items.get(key)
            if old is None:
                item = self._items[key] = Item(key, wanted[key], version=1, created=now, updated=now)
                self._tell(Event(EventType.CREATED, item))
            elif old.spec != wanted[key]:
                item = self._items[key] = replace(old, spec=wanted[key], version=old.version + 1, updated=now)
                self._tell(Event(EventType.UPDATED, item, old))

    def get(self, key: Key) -> Item | None:
        return self._items.get(key)

    def list(self, namespace: str, type_: str) -> list[Item]:
        """Return the resources of one type, by their ids."""
        return sorted(
            (item for key, item in self._items.items() if (key.namespace, key.type) == (namespace, type_)),
            key=lambda item: item.key.id,
        )

    @contextmanager
    def watching(self, namespace: str, type_: str, id_: str | None, wake: Callable[[], None]) -> Iterator[Watcher]:
        """Collect from now on what happens to one type, or to one resource; `wake` is called for each event."""
        watcher = Watcher(namespace, type_, id_, wake)
        self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)

    def _tell(self, event: Event) -> None:
        for watcher in self._watchers:
            watcher.offer(event)
