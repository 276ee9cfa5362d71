"""The objects that change the server itself: definitions make kinds, policies and RBAC objects come into force."""

from __future__ import annotations

from typing import Any

from services.devapi import admission, definitions, metadata, rbac, refusal
from services.devapi.admission import Admission
from services.devapi.kinds import Kind, Kinds
from services.devapi.rbac import Rbac
from services.devapi.store import Key, Store

Item = dict[str, Any]


class Special:
    """Keeps kinds, policies and access in step with the store."""

    def __init__(self, store: Store, kinds: Kinds, policies: Admission, access: Rbac) -> None:
        self._store = store
        self._kinds = kinds
        self._policies = policies
        self._access = access

    def prepared(self, kind: Kind, item: Item) -> Item:
        """Return an object about to be stored with what controllers would add; refuses a useless definition."""
        if kind.resource != definitions.RESOURCE:
            return item
        definitions.kind_of(item)
        return definitions.established(item, metadata.now())

    def check(self, kind: Kind, item: Item) -> None:
        """Refuse what could be stored but would not be in force as it is written."""
        if kind.resource == definitions.RESOURCE:
            made = definitions.kind_of(item)
            known = self._kinds.get(made.resource)
            if known is not None and not known.custom:
                raise refusal.bad_request(f"{made.plural}.{made.group} is a built-in kind")
        elif kind.resource == admission.POLICIES:
            admission.compile_policy(item)

    def changed(self, kind: Kind, key: Key, item: Item) -> None:
        """Bring a stored object into force."""
        if kind.resource == definitions.RESOURCE:
            made = definitions.kind_of(item)
            self._kinds.drop(made.resource)
            self._kinds.put(made)
        else:
            self._in_force(kind.resource, key, item)

    def gone(self, resource: tuple[str, str], key: Key) -> None:
        """Take a deleted object out of force; a definition takes all objects of its kind with it."""
        if resource == definitions.RESOURCE:
            plural, _, group = key[1].partition(".")
            self._kinds.drop((group, plural))
            self._store.drop((group, plural))
        else:
            self._in_force(resource, key, None)

    def _in_force(self, resource: tuple[str, str], key: Key, item: Item | None) -> None:
        if resource == admission.POLICIES:
            self._policies.policy_changed(key[1], item)
        elif resource == admission.BINDINGS:
            self._policies.binding_changed(key[1], item)
        elif resource[0] == rbac.GROUP:
            self._access.forget()
