"""The answers "no": a refusal carries the Status object that Kubernetes clients look into.

The reasons and the shape of `details` are part of the contract; the prose follows kube-apiserver where
people know it by heart.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of one field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """An HTTP status and the Status object's reason, message and details."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the Status object to answer with."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details else {}),
            "code": self.code,
        }


def not_found(resource: str, group: str, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{_full(resource, group)} "{name}" not found', _details(resource, group, name))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: str, group: str, name: str) -> Refusal:
    message = f'{_full(resource, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _details(resource, group, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, why: str = MODIFIED) -> Refusal:
    message = f'Operation cannot be fulfilled on {_full(resource, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(resource, group, name))


def apply_conflict(owners: dict[str, list[str]]) -> Refusal:
    """Refuse an apply because of fields that others own: field path by the description of its owner."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": field}
        for owner, fields in sorted(owners.items())
        for field in sorted(fields)
    ]
    number = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(owners) == 1 and len(causes) == 1:
        prose = f"{causes[0]['message']}: {causes[0]['field']}"
    else:
        prose = "\n".join(
            f"conflicts with {owner}:\n- " + "\n- ".join(sorted(fields)) for owner, fields in sorted(owners.items())
        )
    return Refusal(409, "Conflict", f"Apply failed with {number}: {prose}", {"causes": causes})


def invalid(kind: str, group: str, name: str, causes: list[Cause]) -> Refusal:
    """Refuse an object's content; each cause names its field."""
    listed = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(map(str, causes)) + "]"
    details = {**_details(kind, group, name), "causes": [msgspec.to_builtins(cause) for cause in causes]}
    return Refusal(422, "Invalid", f'{_full(kind, group)} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def undeclared(api_version: str, kind: str, name: str, path: str) -> Refusal:
    """Refuse an apply of a field that the schema does not have; a real API server says 500 to that, too."""
    what = f"(/{name}; {api_version}, Kind={kind})"
    message = f"failed to create typed patch object {what}: .{path}: field not declared in schema"
    return Refusal(500, "", message)


def forbidden(resource: str, group: str, name: str, why: str) -> Refusal:
    shown = f' "{name}"' if name else ""
    message = f"{_full(resource, group)}{shown} is forbidden: {why}"
    return Refusal(403, "Forbidden", message, _details(resource, group, name))


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def not_allowed(method: str) -> Refusal:
    message = f"the server does not allow this method on the requested resource: {method}"
    return Refusal(405, "MethodNotAllowed", message)


def unsupported_media(content_type: str, known: tuple[str, ...]) -> Refusal:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(known)}, and this is {content_type!r}"
    )
    return Refusal(415, "UnsupportedMediaType", message)


def too_large(size: int, limit: int) -> Refusal:
    message = f"Request entity too large: {size} bytes, and the limit is {limit}"
    return Refusal(413, "RequestEntityTooLarge", message)


def version_too_large(version: int, current: int) -> Refusal:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    return Refusal(504, "Timeout", f"Timeout: Too large resource version: {version}, current: {current}", details)


def not_offered(what: str) -> Refusal:
    """Refuse what a real API server would do and devapi does not, in so many words."""
    return Refusal(422, "Invalid", f"nodetrail devapi does not offer {what}; a real kube-apiserver does")


def _full(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(resource: str, group: str, name: str) -> dict[str, Any]:
    return {"name": name, **({"group": group} if group else {}), "kind": resource}
