"""What a node answers: the port between the wire, which lives here, and whoever plays the node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Protocol

from libs.talos.serve.resources import Resources


class Code(IntEnum):
    """The gRPC status codes that are not OK, by their numbers on the wire."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Refusal(Exception):  # noqa: N818 - a refusal is an answer
    """The node says no, with a gRPC status code and a text."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Role:
    """Roles as certificates carry them in their organizations; unknown ones grant nothing."""

    ADMIN = "os:admin"
    OPERATOR = "os:operator"
    READER = "os:reader"


@dataclass(frozen=True)
class Peer:
    """Who is on one connection, as its handshake proved it."""

    address: str
    roles: frozenset[str]


class Conduct(Enum):
    """How the next connection is treated."""

    NORMAL = "normal"
    SILENT = "silent"
    """Accepted, and then nothing is said."""
    DROPPED = "dropped"
    """Reset right after the handshake."""


class Mode(IntEnum):
    """How a configuration is applied, by its number on the wire."""

    REBOOT = 0
    AUTO = 1
    NO_REBOOT = 2
    STAGED = 3
    TRY = 4


@dataclass(frozen=True)
class Applied:
    """The answer to a configuration that was taken."""

    mode: Mode
    details: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class VersionInfo:
    """What `Version` says; `rbac` is None in maintenance mode, where the features are left out."""

    tag: str
    platform: str = "metal"
    platform_mode: str = "metal"
    arch: str = "amd64"
    rbac: bool | None = None


class NodeApi(Protocol):
    """A node as its API shows it. Methods raise `Refusal`; what follows from a yes happens afterwards."""

    @property
    def in_maintenance(self) -> bool:
        """Whether whoever connects is a reader who may also apply a configuration."""
        ...

    @property
    def forwards(self) -> bool:
        """Whether it holds a client certificate and passes requests on, as control planes do."""
        ...

    @property
    def resources(self) -> Resources: ...

    def conduct(self) -> Conduct:
        """Say how to treat a connection that was just accepted."""
        ...

    def connected(self, peer: Peer) -> None:
        """Take note of a finished handshake."""
        ...

    def is_me(self, target: str) -> bool:
        """Whether an address or name is one of this node's own, present ones."""
        ...

    def neighbour(self, target: str) -> NodeApi | None:
        """Return the node that answers there, or None."""
        ...

    def version(self) -> VersionInfo: ...
    def hostname(self) -> str: ...
    async def apply_configuration(self, data: bytes, mode: Mode, *, dry_run: bool) -> Applied: ...
    def reboot(self) -> None: ...
    def shutdown(self) -> None: ...
    def reset(self, *, labels: Iterable[str], reboot: bool) -> None: ...

    def read_file(self, path: str) -> bytes:
        """Return a file of the node."""
        ...
