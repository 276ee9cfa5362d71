"""The documents by which clients find out what is offered: groups, resources, version."""

from __future__ import annotations

from typing import Any

from services.devapi.kinds import VERBS, Kind, Kinds

VERSION = "v1.37.2"
"""The kube-apiserver whose manners these are; what follows the plus sign says what this is."""

LEFT_OUT = (
    "in memory only; no garbage collection by owner, no quota, no webhooks, no mutating policies, no conversion of "
    "versions; built-in kinds are few and not validated beyond metadata; RBAC and ValidatingAdmissionPolicies are "
    "evaluated, without aggregated roles, escalation checks and parameters; CEL without type checks and costs"
)
"""What devapi does not do and a real API server does: said in the log, in /version and in each answer's header."""

REVIEWS = {
    ("authentication.k8s.io", "v1", "tokenreviews"): "TokenReview",
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): "SelfSubjectReview",
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): "SubjectAccessReview",
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
}
"""Questions that are created, answered and never stored, by group, version and plural."""


def document(  # noqa: PLR0911 - one for each document
    kinds: Kinds, parts: list[str]
) -> dict[str, Any] | None:
    """Return the document at a path, split at its slashes; None when there is none."""
    groups = {**kinds.groups(), **{group: [version] for group, version, _ in REVIEWS}}
    match parts:
        case ["version"]:
            return version()
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        case ["apis"]:
            listed = [_group(group, versions) for group, versions in sorted(groups.items())]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", "v1"]:
            return _resources(kinds, "", "v1")
        case ["apis", group, number] if number in groups.get(group, ()):
            return _resources(kinds, group, number)
        case _:
            return None


def version() -> dict[str, Any]:
    major, minor, _ = VERSION[1:].split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{VERSION}+nodetrail-devapi",
        "gitTreeState": "clean",
        "platform": "nodetrail/devapi",
        "nodetrailDevapi": LEFT_OUT,
    }


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{number}", "version": number} for number in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kinds: Kinds, group: str, number: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for kind in kinds:
        if (kind.group, kind.version) == (group, number):
            listed.append(_resource(kind))
            if kind.has_status:
                listed.append(_status_resource(kind))
    for (review_group, review_version, plural), kind_name in REVIEWS.items():
        if (review_group, review_version) == (group, number):
            entry = {"name": plural, "singularName": kind_name.lower(), "namespaced": False}
            listed.append({**entry, "kind": kind_name, "verbs": ["create"]})
    group_version = f"{group}/{number}" if group else number
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS),
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
    }


def _status_resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
