"""Asks one place who answers there: TLS first, then identity, then the rest. Every failure becomes an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from libs import identity, talos
from libs.endpoint import Endpoint
from libs.identity import Identity
from services.machine_reconciler.facts import (
    Answer,
    Configured,
    CredentialsRefused,
    InMaintenance,
    Proven,
    Silent,
    Stranger,
)

LOOK_SECONDS = 5.0
READ_SECONDS = 5.0
PROVE_SECONDS = 3.0


class MaintenanceNode(Protocol):
    """A box in maintenance mode, its certificate checked."""

    @property
    def leaf(self) -> talos.Leaf: ...
    async def identity(self) -> Identity: ...
    async def apply_configuration(self, data: bytes) -> object: ...


class ConfiguredNode(Protocol):
    """A node whose chain and identity were verified on this connection."""

    @property
    def leaf(self) -> talos.Leaf: ...
    async def machine_configuration(self) -> bytes: ...
    async def nodename(self) -> str: ...


class Dialler(Protocol):
    """How nodes are dialled; `libs.talos` is one."""

    def maintenance(
        self, endpoint: Endpoint, *, pin: str | None, timeout_seconds: float
    ) -> AbstractAsyncContextManager[MaintenanceNode]: ...

    def configured(
        self,
        endpoint: Endpoint,
        credentials: talos.Credentials,
        *,
        proves: Callable[[Identity], bool],
        timeout_seconds: float,
    ) -> AbstractAsyncContextManager[ConfiguredNode]: ...


async def look(dialler: Dialler, endpoint: Endpoint, expected: Identity) -> Answer:
    """Find out who answers, without credentials."""
    try:
        async with dialler.maintenance(endpoint, pin=None, timeout_seconds=LOOK_SECONDS) as node:
            return await _claimed(node, expected)
    except talos.NotMaintenance as error:
        return Configured(fingerprint=error.leaf.fingerprint)
    except talos.TalosError as error:
        return Silent(why=str(error))


async def read(
    dialler: Dialler, endpoint: Endpoint, credentials: talos.Credentials, expected: Identity, *, desired: bytes
) -> Answer:
    """Read the machine over mTLS and compare with the desired configuration, if there is one."""
    try:
        async with dialler.configured(
            endpoint, credentials, proves=partial(identity.proves, expected), timeout_seconds=READ_SECONDS
        ) as node:
            active = await node.machine_configuration()
            node_name = await _node_name(node)
            fingerprint = node.leaf.fingerprint
    except talos.NotConfigured:
        return await look(dialler, endpoint, expected)
    except talos.TalosError as error:
        return _failed(error)
    return Proven(fingerprint=fingerprint, equals_desired=await _means_the_same(active, desired), node_name=node_name)


async def prove(dialler: Dialler, endpoint: Endpoint, credentials: talos.Credentials, expected: Identity) -> Answer:
    """Find out whether the machine is there, and nothing more."""
    try:
        async with dialler.configured(
            endpoint, credentials, proves=partial(identity.proves, expected), timeout_seconds=PROVE_SECONDS
        ) as node:
            return Proven(fingerprint=node.leaf.fingerprint)
    except talos.NotConfigured as error:
        return InMaintenance(fingerprint=error.leaf.fingerprint, is_it=False)
    except talos.TalosError as error:
        return _failed(error)


async def _claimed(node: MaintenanceNode, expected: Identity) -> InMaintenance:
    """Read the claimed identity; a box that cannot say who it is does not show the machine's."""
    try:
        is_it = identity.match(expected, await node.identity()).is_match
    except talos.TalosError:
        is_it = False
    return InMaintenance(fingerprint=node.leaf.fingerprint, is_it=is_it)


async def _means_the_same(active: bytes, desired: bytes) -> bool | None:
    if not desired:
        return None
    # A node keeps the very bytes it was sent; only if they differ are both parsed, which takes a while.
    return active == desired or await asyncio.to_thread(talos.same_configuration, active, desired)


async def _node_name(node: ConfiguredNode) -> str:
    """Return its Kubernetes name; a node that has just started may not know it yet."""
    try:
        return await node.nodename()
    except talos.TalosError:
        return ""


def _failed(error: talos.TalosError) -> Answer:
    match error:
        case talos.WrongIdentity():
            return Stranger(why=str(error))
        case talos.CredentialsRejected() | talos.NotAllowed():
            return CredentialsRefused(why=str(error))
    return Silent(why=str(error))
