"""What kinds of object there are, and where: the registry that discovery, paths and the store go by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from services.devapi.cel.rules import Rules

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    type: str
    path: str
    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of object in its one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    """Whether there is a status subresource; the main resource then leaves status alone."""
    has_generation: bool = False
    name_rule: str = "subdomain"
    """`subdomain`, `label` or `segment`: what its names may look like."""
    unconditional_update: bool = True
    """Whether a PUT may come without a resourceVersion."""
    put_creates: bool = False
    """Whether a PUT makes an object that is not there."""
    schema: Schema = field(default_factory=dict)
    """Structural schema. For built-in kinds only list keys, for kinds from a CustomResourceDefinition all of it."""
    custom: bool = False
    """From a CustomResourceDefinition: pruned, defaulted, validated; its status resource leaves metadata alone."""
    columns: tuple[Column, ...] = ()
    rules: Rules | None = None
    """The schema's CEL rules, compiled."""
    keep_max: int = 0
    """How many are kept, oldest forgotten first; 0 for all."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> tuple[str, str]:
        """Group and plural: the key of its collection."""
        return self.group, self.plural


class Kinds:
    """All kinds, by group, version and plural. Kinds from CustomResourceDefinitions come and go."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in kinds}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind that a path names."""
        return self._kinds.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that an object says it is."""
        group, _, version = api_version.rpartition("/")
        found = (known for known in self if (known.group, known.version, known.kind) == (group, version, kind))
        return next(found, None)

    def get(self, resource: tuple[str, str]) -> Kind | None:
        """Return the kind kept in a collection."""
        return next((kind for kind in self if kind.resource == resource), None)

    def put(self, kind: Kind) -> None:
        self._kinds[kind.group, kind.version, kind.plural] = kind

    def drop(self, resource: tuple[str, str]) -> None:
        """Forget a kind whose definition was deleted."""
        self._kinds = {key: kind for key, kind in self._kinds.items() if kind.resource != resource}

    def groups(self) -> dict[str, list[str]]:
        """Return the versions of every group, the core group left out."""
        versions: dict[str, list[str]] = {}
        for group, version, _ in self._kinds:
            known = versions.setdefault(group, [])
            if version not in known:
                known.append(version)
        versions.pop("", None)
        return versions
