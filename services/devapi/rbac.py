"""Who may do what: Roles, ClusterRoles and their bindings, evaluated for real.

Left out: aggregated ClusterRoles, and the rule that nobody may grant more than they have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from services.devapi.store import Store
from services.devapi.users import AUTHENTICATED, MASTERS, User

GROUP = "rbac.authorization.k8s.io"
ANSWERS_MAX = 10_000

_OPEN_PATHS = ("/api", "/apis", "/version", "/openapi", "/healthz", "/readyz", "/livez")
# What every authenticated user may ask about themselves (system:basic-user).
_OPEN_REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}


class Act(NamedTuple):
    """What somebody wants to do to which resource."""

    verb: str
    group: str
    resource: str
    """Plural, with a subresource after a slash."""
    namespace: str = ""
    name: str = ""


class Rbac:
    """Answers from the RBAC objects in the store; answers are remembered until one of those changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answers: dict[tuple[User, Act], bool] = {}

    def forget(self) -> None:
        """An RBAC object has changed."""
        self._answers.clear()

    def allows(self, user: User, act: Act) -> bool:
        if MASTERS in user.groups:
            return True
        answer = self._answers.get((user, act))
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._decide(user, act)
            self._answers[user, act] = answer
        return answer

    def allows_path(self, user: User, verb: str, path: str) -> bool:
        """Tell whether a path that is no resource may be asked for."""
        if MASTERS in user.groups:
            return True
        if AUTHENTICATED in user.groups and verb == "get" and path.startswith(_OPEN_PATHS):
            return True
        return any(
            _in(verb, _words(rule, "verbs")) and _path_fits(path, _words(rule, "nonResourceURLs"))
            for rule in self._rules(user, "")
        )

    def _decide(self, user: User, act: Act) -> bool:
        if AUTHENTICATED in user.groups and act.verb == "create" and (act.group, act.resource) in _OPEN_REVIEWS:
            return True
        return any(_fits(rule, act) for rule in self._rules(user, act.namespace))

    def _rules(self, user: User, namespace: str) -> list[dict[str, Any]]:
        """Return every rule that is bound to a user, cluster-wide and in the namespace."""
        rules: list[dict[str, Any]] = []
        for _, entry in self._store.collection((GROUP, "clusterrolebindings")).sorted():
            if _binds(entry.item, user):
                rules += self._role(entry.item["roleRef"], "")
        if namespace:
            for _, entry in self._store.collection((GROUP, "rolebindings")).sorted(namespace):
                if _binds(entry.item, user):
                    rules += self._role(entry.item["roleRef"], namespace)
        return rules

    def _role(self, reference: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
        plural, place = ("clusterroles", "") if reference["kind"] == "ClusterRole" else ("roles", namespace)
        entry = self._store.get((GROUP, plural), (place, reference["name"]))
        return list(entry.item.get("rules") or ()) if entry else []


def _binds(binding: dict[str, Any], user: User) -> bool:
    return any(_is(subject, user) for subject in binding.get("subjects") or ())


def _is(subject: dict[str, Any], user: User) -> bool:
    name = subject["name"]
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject.get('namespace', '')}:{name}"
        case _:
            return False


def _fits(rule: dict[str, Any], act: Act) -> bool:
    names = _words(rule, "resourceNames")
    return (
        _in(act.verb, _words(rule, "verbs"))
        and _in(act.group, _words(rule, "apiGroups"))
        and _resource_fits(act.resource, _words(rule, "resources"))
        and (not names or act.name in names)
    )


def _words(rule: dict[str, Any], name: str) -> list[str]:
    return rule.get(name) or []


def _in(word: str, words: list[str]) -> bool:
    return word in words or "*" in words


def _resource_fits(resource: str, known: list[str]) -> bool:
    _, slash, subresource = resource.partition("/")
    return resource in known or "*" in known or (bool(slash) and f"*/{subresource}" in known)


def _path_fits(path: str, known: list[str]) -> bool:
    return any(path == url or (url.endswith("*") and path.startswith(url[:-1])) for url in known)


def refused_because(user: User, act: Act) -> str:
    """Say who may not do what, as kube-apiserver says it."""
    where = f'in the namespace "{act.namespace}"' if act.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {act.verb} resource "{act.resource}" in API group "{act.group}" {where}'
