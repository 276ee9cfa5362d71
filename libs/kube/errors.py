"""What the Kubernetes API can answer other than yes: one class for each thing that a caller does differently.

    KubeError
    ├── NotFound            the object is not there (any more)
    ├── AlreadyExists       somebody else made it first
    ├── Conflict            it changed since it was read: read again, decide again
    ├── Forbidden           an account may not do this, or an admission policy says no
    ├── Invalid             the server refuses the content; the text names the field
    ├── Undecodable         the stored object is not of the shape that we read
    ├── KubeconfigError     there is no usable way to an API server
    └── Unavailable         server or way there are gone, slow or busy: try again later
        ├── Unauthorized    our credentials are refused, fresh ones too
        └── Expired         the version asked for is gone: list again

Texts name verb, resource, object and reason; never a token, and never the content of a Secret.
"""
# ruff: noqa: N818 - `kube.NotFound` reads as what it is wherever it is caught.

from __future__ import annotations

import msgspec

from libs import runtime

MESSAGE_MAX = 2048
"""Longer answers are cut: an error text ends in conditions and log lines."""


class KubeError(Exception):
    """Base of all errors of this lib."""


class NotFound(KubeError):
    """The object does not exist."""


class AlreadyExists(KubeError):
    """An object of that name exists."""


class Conflict(KubeError):
    """The object is not the one that was read: read it again and decide again."""


class Forbidden(KubeError):
    """The account lacks the right, or an admission policy objects."""


class Invalid(KubeError):
    """The server understood and refuses the content; trying again changes nothing."""


class Undecodable(KubeError):
    """The object was read but has another shape than its type here."""


class KubeconfigError(KubeError, runtime.CannotStartError):
    """There is no usable kubeconfig, or the pod's service account is not there."""


class Unavailable(KubeError):
    """Nothing was learned; a write may or may not have happened. Worth another try."""

    def __init__(self, text: str, *, retry_after_seconds: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after_seconds = retry_after_seconds
        """How long the server asked to be left alone, or 0."""


class Unauthorized(Unavailable):
    """The credentials are refused, also after they were loaded anew; somebody may be replacing them just now."""


class Expired(Unavailable):
    """The resourceVersion or the continuation is too old to go on from."""


class Status(msgspec.Struct, frozen=True):
    """Kubernetes' own description of a failure, in an answer or inside a watch."""

    message: str = ""
    reason: str = ""
    code: int = 0


def from_status(action: str, http_status: int, status: Status, *, secret: bool, retry_after: str = "") -> KubeError:
    """Return the error for a refused request; `action` says what was tried on what."""
    code = status.code or http_status
    reason = status.reason or f"HTTP {code}"
    text = f"{action}: {reason}"
    if status.message and not secret:  # an Invalid Secret's message may quote it
        text = f"{text}: {status.message[:MESSAGE_MAX]}"
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(text)
    if code == 410:
        return Expired(text)
    if code == 401:
        return Unauthorized(text)
    if code == 429 or code >= 500:
        return Unavailable(text, retry_after_seconds=_seconds(retry_after))
    return _BY_CODE.get(code, KubeError)(text)


_BY_CODE: dict[int, type[KubeError]] = {
    400: Invalid,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: Invalid,
}


def _seconds(header: str) -> float:
    """Read a Retry-After in whole seconds; the form with a date is not used by API servers."""
    return float(header[:6]) if header.isascii() and header.isdigit() else 0.0
