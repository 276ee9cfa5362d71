"""One request about objects: who wants what of which, with its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.devapi import refusal
from services.devapi.kinds import Kind
from services.devapi.refusal import Cause
from services.devapi.users import User

MANAGER_MAX = 128


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request whose path was understood and whose caller is known."""

    verb: str
    kind: Kind
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    agent: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def dry_run(self) -> bool:
        return bool(self.options.get("dryRun"))

    @property
    def force(self) -> bool:
        return self.options.get("force") in {"true", "1", "True"}

    def manager(self, *, applying: bool = False) -> str:
        """Return the field manager: named, or else the program that calls. An apply has to name it."""
        named = self.options.get("fieldManager", "")
        if not named and applying:
            message = "Required value: is required for apply patch"
            cause = Cause(field="fieldManager", reason="FieldValueRequired", message=message)
            raise refusal.invalid("PatchOptions", "meta.k8s.io", "", [cause])
        if len(named) > MANAGER_MAX:
            raise refusal.bad_request(f"fieldManager is longer than {MANAGER_MAX} bytes")
        return named or self.agent.partition("/")[0][:MANAGER_MAX] or "unknown"

    def not_found(self, name: str = "") -> refusal.Refusal:
        return refusal.not_found(self.kind.plural, self.kind.group, name or self.name)

    def conflict(self, why: str = refusal.MODIFIED) -> refusal.Refusal:
        return refusal.conflict(self.kind.plural, self.kind.group, self.name, why)
