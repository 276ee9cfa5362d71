"""What a method and a path mean: a verb on a resource, or a document about the API itself."""

from __future__ import annotations

from dataclasses import dataclass

_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A resource path: which group, version, resource and object, and what is to be done with it."""

    verb: str
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """The plural with its subresource, as RBAC names it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def target_of(method: str, path: str, *, watching: bool) -> Target | None:
    """Return what a path under /api or /apis points at, or None when it is not a resource."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == "namespaces" and name:
        namespace = name  # a namespace is in itself, for RBAC
    return Target(
        verb=_verb(method, name, watching=watching),
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def _verb(method: str, name: str, *, watching: bool) -> str:
    if method in {"GET", "HEAD"}:
        return "watch" if watching else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _METHODS.get(method, method.lower())
