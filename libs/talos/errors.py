"""What a Talos node, or whatever answers in its place, can do other than answer: one class for each way to act.

    TalosError
    ├── Unreachable           nothing answers, or not in time, or it went away: try again
    ├── StrangeAnswer         something answers, but not as a Talos node may: garbage, too much, the wrong types
    ├── CertificateMismatch   a maintenance leaf other than the pinned one: nothing was sent
    ├── NotMaintenance        a configured node's leaf where a maintenance leaf was expected
    ├── NotConfigured         a maintenance leaf where a configured node was expected
    ├── WrongIdentity         another box: of another cluster, or of this cluster with another identity
    ├── CredentialsRejected   our own client certificate has expired or is refused: says nothing about the node
    ├── NotAllowed            the node knows us and does not let us do this
    ├── Rejected              the node's definite no to a configuration
    ├── InvalidCredentials    the text is not a talosconfig that can be used
    └── InvalidConfiguration  the text is not a machine configuration that can be sent

Texts name the address and what to do next; never a key, never the content of a configuration.
"""
# ruff: noqa: N818 - `talos.Unreachable` reads as what it is wherever it is caught.

from __future__ import annotations

from libs.identity import Identity
from libs.talos.leaf import Leaf


class TalosError(Exception):
    """Base of all errors of this lib."""


class Unreachable(TalosError):
    """Nothing answered there in time, or the connection ended under a call."""


class StrangeAnswer(TalosError):
    """What answered there does not behave as a Talos node, or answered more than it may."""


class CertificateMismatch(TalosError):
    """The presented maintenance leaf is not the pinned one; not a byte was sent."""

    def __init__(self, text: str, *, expected: str, presented: Leaf) -> None:
        super().__init__(text)
        self.expected = expected
        self.presented = presented


class NotMaintenance(TalosError):
    """A configured node's leaf, where a maintenance leaf was expected."""

    def __init__(self, text: str, leaf: Leaf) -> None:
        super().__init__(text)
        self.leaf = leaf


class NotConfigured(TalosError):
    """A maintenance leaf, where a configured node was expected. Taken on a connection of its own: no proof of who."""

    def __init__(self, text: str, leaf: Leaf) -> None:
        super().__init__(text)
        self.leaf = leaf


class WrongIdentity(TalosError):
    """Another box answers. `seen` is what it said of itself, or None when it is not even of the same cluster."""

    def __init__(self, text: str, seen: Identity | None) -> None:
        super().__init__(text)
        self.seen = seen


class CredentialsRejected(TalosError):
    """Our client certificate has expired or the node refuses it; who the node is stays open."""


class NotAllowed(TalosError):
    """The credentials hold, but not for this call."""


class Rejected(TalosError):
    """The node refused a configuration and will refuse it again; `code` is the name of its gRPC status.

    `message` is the node's own text: it may quote the configuration, so it belongs in no log, event or condition.
    """

    def __init__(self, text: str, *, code: str, message: str) -> None:
        super().__init__(text)
        self.code = code
        self.message = message


class InvalidCredentials(TalosError):
    """Not a talosconfig with an authority and a client certificate; the text names the field."""


class InvalidConfiguration(TalosError):
    """Not a Talos machine configuration with a v1alpha1 document; the text says what is missing."""
