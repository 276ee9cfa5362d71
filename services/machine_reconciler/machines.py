"""The machines as last heard or written, and who is meant by an identity or a Kubernetes Node."""

from __future__ import annotations

import msgspec

from libs import kube
from libs.identity import Found, Identity, Index
from libs.machine import TalosMachine

Key = tuple[str, str]


class Machines:
    """An index over the watch; our own writes count at once, before the watch has told of them."""

    def __init__(self) -> None:
        self._machines: dict[Key, TalosMachine] = {}
        self._identities: Index[Key] = Index()
        self._by_node: dict[str, set[Key]] = {}
        self._unapproved: set[Key] = set()

    def __len__(self) -> int:
        return len(self._machines)

    @property
    def unapproved(self) -> int:
        """How many wait for approval."""
        return len(self._unapproved)

    def get(self, key: Key) -> TalosMachine | None:
        """Return the newest that is known of a machine."""
        return self._machines.get(key)

    def put(self, machine: TalosMachine) -> None:
        """Take in a machine as read, watched or written; an older version than the known one changes nothing."""
        known = self._machines.get(machine.key)
        if known is not None and known.metadata.uid == machine.metadata.uid and _version(machine) < _version(known):
            return
        if known is not None:
            self._forget_names(known)
        if machine.metadata.managed_fields:  # half of its weight, and of no use here
            metadata = msgspec.structs.replace(machine.metadata, managed_fields=())
            machine = msgspec.structs.replace(machine, metadata=metadata)
        self._machines[machine.key] = machine
        self._identities.put(machine.key, machine.spec.identity)
        for name in node_names(machine):
            self._by_node.setdefault(name, set()).add(machine.key)
        if not machine.spec.approved and not machine.was_sent:
            self._unapproved.add(machine.key)

    def remove(self, machine: TalosMachine) -> None:
        """Forget a machine that was deleted; a namesake that took its place stays."""
        known = self._machines.get(machine.key)
        if known is None or known.metadata.uid != machine.metadata.uid:
            return
        self._forget_names(known)
        self._identities.remove(machine.key)
        del self._machines[machine.key]

    def find(self, seen: Identity) -> Found[Key]:
        """Say which machines an identity may be."""
        return self._identities.find(seen)

    def meant_by(self, node: kube.Node) -> frozenset[Key]:
        """Return the machines that a Node may be: those that name it, and those with its system UUID."""
        by_uuid = self._identities.find(Identity(uuid=node.system_uuid))
        return frozenset(self._by_node.get(node.metadata.name, ())).union(by_uuid.matching, by_uuid.weak)

    def _forget_names(self, machine: TalosMachine) -> None:
        self._unapproved.discard(machine.key)
        for name in node_names(machine):
            keys = self._by_node.get(name, set())
            keys.discard(machine.key)
            if not keys:
                self._by_node.pop(name, None)


def node_names(machine: TalosMachine) -> list[str]:
    """Return the names under which the machine may be a Kubernetes Node: the declared one, then the one it told."""
    return [name for name in dict.fromkeys((machine.spec.hostname, machine.status.node_name)) if name]


def _version(machine: TalosMachine) -> int:
    """Versions of one object can be compared; one that is no number never counts as older."""
    text = machine.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 2**63
