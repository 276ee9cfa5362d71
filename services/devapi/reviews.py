"""Questions about tokens and access, answered and never stored."""

from __future__ import annotations

from typing import Any

from services.devapi import refusal
from services.devapi.rbac import Act, Rbac
from services.devapi.users import User, Users

Item = dict[str, Any]


class Reviews:
    """Answers TokenReviews and the access reviews from the users and RBAC objects at hand."""

    def __init__(self, users: Users, rbac: Rbac) -> None:
        self._users = users
        self._rbac = rbac

    def answer(self, kind: str, api_version: str, asker: User, body: Any) -> Item:
        """Return the review with its status."""
        if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
            raise refusal.bad_request(f"the body is not a {kind}")
        spec = body.get("spec") or {}
        match kind:
            case "TokenReview":
                spec = {key: value for key, value in spec.items() if key != "token"}
                status = self._token((body.get("spec") or {}).get("token", ""))
            case "SelfSubjectReview":
                status = {"userInfo": _info(asker)}
            case "SubjectAccessReview":
                user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
                status = self._access(user, spec)
            case _:
                status = self._access(asker, spec)
        return {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": spec, "status": status}

    def _token(self, token: str) -> Item:
        user = self._users.holding(token)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _info(user), "audiences": []}

    def _access(self, user: User, spec: Item) -> Item:
        if path := spec.get("nonResourceAttributes"):
            allowed = self._rbac.allows_path(user, path.get("verb", ""), path.get("path", ""))
        else:
            attributes = spec.get("resourceAttributes") or {}
            resource = attributes.get("resource", "")
            if attributes.get("subresource"):
                resource = f"{resource}/{attributes['subresource']}"
            act = Act(
                attributes.get("verb", ""),
                attributes.get("group", ""),
                resource,
                attributes.get("namespace", ""),
                attributes.get("name", ""),
            )
            allowed = self._rbac.allows(user, act)
        return {"allowed": allowed} if allowed else {"allowed": False, "reason": "no RBAC rule allows it"}


def _info(user: User) -> Item:
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
