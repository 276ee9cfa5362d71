"""Nodes that we are connected to, in maintenance mode and configured; who answers is verified before gRPC begins."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn

import grpc
from google.protobuf.empty_pb2 import Empty

from libs.endpoint import Endpoint
from libs.identity import Identity
from libs.talos import reads
from libs.talos.connection import Connection
from libs.talos.credentials import Credentials
from libs.talos.dial import anybody, look, open_tls, presented_leaf, within
from libs.talos.errors import (
    CertificateMismatch,
    CredentialsRejected,
    NotConfigured,
    NotMaintenance,
    Rejected,
    Unreachable,
    WrongIdentity,
)
from libs.talos.leaf import Leaf, same_fingerprint
from libs.talos.pb import machine_pb2
from libs.talos.tunnel import open_tunnel

_DEFINITE = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.ALREADY_EXISTS,
    }
)
"""Answers of the node itself: gRPC makes none of these when a connection or a message fails."""

_MODES = {int(number): name for name, number in machine_pb2.ApplyConfigurationRequest.Mode.items()}
_TEXT_MAX = 1024
_WARNINGS_MAX = 32
_CLOCK_ERRORS = {9: "is not valid yet", 10: "has expired"}
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


@dataclass(frozen=True)
class Applied:
    """The node took the configuration. `mode` is the mode it really used, by name."""

    mode: str
    warnings: tuple[str, ...]


class MaintenanceNode:
    """A box in maintenance mode. Anything it says of itself is its own word."""

    def __init__(self, connection: Connection, leaf: Leaf, *, pinned: bool) -> None:
        self._connection = connection
        self._pinned = pinned
        self.leaf = leaf

    async def identity(self) -> Identity:
        return await reads.identity(self._connection)

    async def apply_configuration(self, data: bytes) -> Applied:
        """Send a machine configuration. Without a pin that is refused here: nobody approved this box."""
        if not self._pinned:
            raise ValueError("a configuration is only ever sent over a connection that was opened with a pin")
        request = machine_pb2.ApplyConfigurationRequest(data=data, mode=machine_pb2.ApplyConfigurationRequest.AUTO)
        connection = self._connection
        what = "apply the configuration"
        async with connection.call(what):
            try:
                answer = await connection.ask(
                    what,
                    "/machine.MachineService/ApplyConfiguration",
                    request,
                    machine_pb2.ApplyConfigurationResponse,
                )
            except grpc.aio.AioRpcError as error:
                if error.code() in _DEFINITE:
                    raise _rejected(connection.endpoint, error) from error
                raise
        applied = answer.messages[0] if answer.messages else machine_pb2.ApplyConfiguration()
        warnings = tuple(text[:_TEXT_MAX] for text in applied.warnings[:_WARNINGS_MAX])
        return Applied(_MODES.get(applied.mode, str(applied.mode)), warnings)


class ConfiguredNode:
    """A node of the cluster whose identity was read and accepted on this very connection."""

    def __init__(self, connection: Connection, identity: Identity, leaf: Leaf) -> None:
        self._connection = connection
        self.identity = identity
        self.leaf = leaf

    async def machine_configuration(self) -> bytes:
        """Read the active machine configuration, byte for byte as it was submitted."""
        return await reads.machine_configuration(self._connection)

    async def nodename(self) -> str:
        """Read the name of its Kubernetes Node, or nothing while it has none."""
        return await reads.nodename(self._connection)

    async def version(self) -> str:
        """Read the version of Talos, such as v1.13.9."""
        what = "read the version"
        async with self._connection.call(what):
            answer = await self._connection.ask(
                what, "/machine.MachineService/Version", Empty(), machine_pb2.VersionResponse
            )
        return answer.messages[0].version.tag[:_TEXT_MAX] if answer.messages else ""


@asynccontextmanager
async def maintenance(endpoint: Endpoint, *, pin: str | None, timeout_seconds: float) -> AsyncIterator[MaintenanceNode]:
    """Connect to a box in maintenance mode: to the one that holds the pin, or, to read only, to any.

    The pin is all that is compared: the dates and names in a maintenance leaf come from a clock and a network that
    are not set up yet. `timeout_seconds` bounds the opening, and then each call.
    """
    async with AsyncExitStack() as stack:
        async with within(endpoint, timeout_seconds):
            stream = await open_tls(endpoint, anybody(), timeout_seconds=timeout_seconds)
            stack.callback(stream.close)
            leaf = presented_leaf(endpoint, stream)
            _check_maintenance(endpoint, leaf, pin)
            tunnel = await open_tunnel(
                stack, stream, endpoint, answer_bytes_max=reads.IDENTITY_BYTES_MAX, with_certificate=False
            )
            connection = Connection(tunnel, endpoint, timeout_seconds)
        yield MaintenanceNode(connection, leaf, pinned=pin is not None)


@asynccontextmanager
async def configured(
    endpoint: Endpoint, credentials: Credentials, *, proves: Callable[[Identity], bool], timeout_seconds: float
) -> AsyncIterator[ConfiguredNode]:
    """Connect to a node of the credentials' cluster, and read who it is before anything else is possible.

    `proves` says whether the identity that was read is the one wanted; if not, `WrongIdentity` carries it.
    `timeout_seconds` bounds the opening, identity included, and then each call.
    """
    if credentials.expired():
        raise CredentialsRejected(
            f"the talosconfig's client certificate expired at {credentials.not_after:%Y-%m-%d %H:%M} UTC; renew it"
        )
    async with AsyncExitStack() as stack:
        async with within(endpoint, timeout_seconds):
            try:
                stream = await open_tls(endpoint, credentials.context, timeout_seconds=timeout_seconds)
            except ssl.SSLCertVerificationError as error:
                await _explain_refused_leaf(endpoint, error, timeout_seconds)
            stack.callback(stream.close)
            tunnel = await open_tunnel(
                stack, stream, endpoint, answer_bytes_max=reads.CONFIGURATION_BYTES_MAX, with_certificate=True
            )
            connection = Connection(tunnel, endpoint, timeout_seconds)
            identity = await reads.identity(connection)
        if not proves(identity):
            raise WrongIdentity(f"another node of the same cluster answers at {endpoint}", identity)
        yield ConfiguredNode(connection, identity, presented_leaf(endpoint, stream))


def _check_maintenance(endpoint: Endpoint, leaf: Leaf, pin: str | None) -> None:
    if pin is not None and same_fingerprint(leaf.fingerprint, pin):
        return
    if not leaf.maintenance:
        raise NotMaintenance(f"{endpoint} is configured already: it presents the leaf of {leaf.common_name!r}", leaf)
    if pin is not None:
        text = f"{endpoint} presents {leaf.fingerprint}, not the pinned {pin}: compare with the box's console"
        raise CertificateMismatch(text, expected=pin, presented=leaf)


async def _explain_refused_leaf(
    endpoint: Endpoint, error: ssl.SSLCertVerificationError, timeout_seconds: float
) -> NoReturn:
    """Python keeps no certificate of a failed handshake, so the leaf is taken on a connection of its own."""
    if error.verify_code in _CLOCK_ERRORS:
        why = _CLOCK_ERRORS[error.verify_code]
        raise Unreachable(f"the certificate of {endpoint} {why}: compare the node's clock with ours") from error
    leaf = await look(endpoint, timeout_seconds)
    if leaf.maintenance:
        raise NotConfigured(f"{endpoint} is in maintenance mode, with the leaf {leaf.fingerprint}", leaf) from error
    raise WrongIdentity(f"the certificate of {endpoint} is not of the talosconfig's cluster", None) from error


def _rejected(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> Rejected:
    code = error.code().name
    text = f"{endpoint} refused the configuration with {code}: check it with `talosctl validate`"
    return Rejected(text, code=code, message=(error.details() or "")[:_TEXT_MAX])
