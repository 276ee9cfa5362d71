"""A node's state as the control API and tests see it."""

from __future__ import annotations

import msgspec

from services.simulator.spec import KubeletSpec, Troubles


class Configurations(msgspec.Struct, frozen=True, kw_only=True):
    """What the node took: how often, and the SHA-256 of the latest, oldest first."""

    count: int
    sha256: tuple[str, ...]


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    """Connections over TLS: now, and finished handshakes ever."""

    open: int
    total: int


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """What an onlooker with a console and a power switch sees."""

    name: str
    addresses: tuple[str, ...]
    port: int
    power: str
    mode: str
    phase: str
    answers: bool
    waiting_for: str
    fingerprint: str
    boot_id: str
    boots: int
    node_id: str
    hostname: str
    kind: str
    uuid: str
    serial: str
    macs: tuple[str, ...]
    configurations_received: Configurations
    connections: Connections
    last_roles: tuple[str, ...]
    troubles: Troubles
    kubelet: KubeletSpec
