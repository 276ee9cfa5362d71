"""The machines as last heard: who is meant by an identity or a Node name, and who is Ready where."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

import msgspec

from libs import rules
from libs.endpoint import DEFAULT_PORT, Endpoint
from libs.identity import Index
from libs.machine import TalosMachine, dial_endpoint, ready_condition

Key = tuple[str, str]
E = TypeVar("E", bound=Hashable)


class Known(msgspec.Struct, frozen=True):
    """A machine with what every observation of it is compared with."""

    machine: TalosMachine
    dials: frozenset[Endpoint]
    """Where it is dialled; nothing when that is a DNS name, which only a lookup can tell."""
    port: int

    @property
    def name(self) -> str:
        """The machine, named for people."""
        return "/".join(self.machine.key)


class Directory:
    """An index over the watch. Our own writes are put in at once, before the watch has told of them."""

    def __init__(self) -> None:
        self.identities: Index[Key] = Index()
        self._known: dict[Key, Known] = {}
        self._by_node: dict[str, set[Key]] = {}
        self._ready_at: dict[Endpoint, set[Key]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> Known | None:
        """Return the newest that is known of a machine."""
        return self._known.get(key)

    def machines(self) -> list[TalosMachine]:
        """Return all of them."""
        return [known.machine for known in self._known.values()]

    def put(self, machine: TalosMachine) -> None:
        """Take in a machine as watched, read or written; an older version than the known one changes nothing."""
        key, old = machine.key, self._known.get(machine.key)
        if old is not None and _is_older(machine, old.machine):
            return
        if old is not None:
            self._forget_names(old)
        known = self._known[key] = _known(machine)
        self.identities.put(key, machine.spec.identity)
        for name in _node_names(machine):
            self._by_node.setdefault(name, set()).add(key)
        if _is_ready(machine):
            for endpoint in known.dials:
                self._ready_at.setdefault(endpoint, set()).add(key)

    def remove(self, machine: TalosMachine) -> None:
        """Forget a machine that was deleted; a namesake that took its place stays."""
        known = self._known.get(machine.key)
        if known is None or known.machine.metadata.uid != machine.metadata.uid:
            return
        self._forget_names(known)
        self.identities.remove(machine.key)
        del self._known[machine.key]

    def named(self, node_name: str) -> list[Known]:
        """Return the machines that a Kubernetes Node of this name may be."""
        return [self._known[key] for key in sorted(self._by_node.get(node_name, ()))]

    def claimed(self, endpoints: frozenset[Endpoint], *, besides: Key | None) -> dict[Endpoint, str]:
        """Return which of these endpoints are dialled for another machine that is `Ready` there, and its name."""
        found: dict[Endpoint, str] = {}
        for endpoint in endpoints:
            others = sorted(self._ready_at.get(endpoint, set()) - {besides})
            if others:
                found[endpoint] = "/".join(others[0])
        return found

    def _forget_names(self, known: Known) -> None:
        for name in _node_names(known.machine):
            _discard(self._by_node, name, known.machine.key)
        for endpoint in known.dials:
            _discard(self._ready_at, endpoint, known.machine.key)


def _known(machine: TalosMachine) -> Known:
    dialled = rules.endpoint_of(dial_endpoint(machine), DEFAULT_PORT)
    is_address = dialled is not None and dialled.address is not None
    return Known(
        machine=machine,
        dials=frozenset({dialled}) if dialled is not None and is_address else frozenset(),
        port=rules.declared_port(machine),
    )


def _node_names(machine: TalosMachine) -> set[str]:
    return {name for name in (machine.spec.hostname, machine.status.node_name) if name}


def _is_ready(machine: TalosMachine) -> bool:
    ready = ready_condition(machine)
    return ready is not None and ready.status == "True"


def _is_older(machine: TalosMachine, than: TalosMachine) -> bool:
    """Whether the watch tells what we know better by now: API servers count their versions up."""
    new, old = machine.metadata, than.metadata
    if new.uid != old.uid or not (new.resource_version.isdecimal() and old.resource_version.isdecimal()):
        return False
    return int(new.resource_version) < int(old.resource_version)


def _discard(index: dict[E, set[Key]], entry: E, key: Key) -> None:
    keys = index.get(entry)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[entry]
