"""Machines and facts for tests of the rules: a good case of each kind, to break one fact at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import msgspec

from libs.events import EndpointObserved, MachineRef, NodeRef, SeenAddress
from libs.identity import Identity
from libs.machine import (
    Condition,
    ConfigurationStatus,
    ObjectMeta,
    Ready,
    Source,
    TalosMachine,
    TalosMachineSpec,
    TalosMachineStatus,
)
from libs.machine.model import ManagedFields
from libs.rules import Facts, Limits, Picture

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
EDITED = NOW - timedelta(days=1)
SEEN_AT = NOW - timedelta(seconds=2)
PIN, OTHER_PIN, THIRD_PIN = "p" * 43 + "=", "q" * 43 + "=", "r" * 43 + "="
IDENTITY = Identity(
    uuid="4c4c4544-0042-3510-8052-b3c04f4b4e32", serial_number="CZ2903", mac_addresses=("52:54:00:12:34:56",)
)
DECLARED = "10.0.0.1"
LIMITS = Limits(denied=(ip_network("10.244.0.0/16"),), allowed=(ip_network("10.244.7.0/24"),))


def machine(
    *,
    endpoint: str = DECLARED,
    observed: str = "",
    observed_for: str | None = None,
    observed_at: datetime | None = None,
    approved: bool = False,
    pin: str = "",
    sent_to: str = "",
    ready: Ready | None = None,
    hostname: str = "",
    node_name: str = "",
    node_addresses: tuple[str, ...] = (),
    edited: datetime | None = EDITED,
    created: datetime | None = EDITED - timedelta(days=1),
    identity: Identity = IDENTITY,
    name: str = "one",
    uid: str = "uid-1",
) -> TalosMachine:
    fields = ManagedFields(manager="kubectl", time=edited, fields={"f:spec": {"f:endpoint": {}}})
    conditions = () if ready is None else (_ready(ready),)
    return TalosMachine(
        metadata=ObjectMeta(
            name=name,
            namespace="nodetrail",
            uid=uid,
            resource_version="7",
            creation_timestamp=created,
            managed_fields=(fields,) if edited else (),
        ),
        spec=TalosMachineSpec(
            endpoint=endpoint, identity=identity, hostname=hostname, approved=approved, maintenance_fingerprint=pin
        ),
        status=TalosMachineStatus(
            observed_endpoint=observed,
            observed_endpoint_for=(endpoint if observed else "") if observed_for is None else observed_for,
            observed_at=observed_at,
            node_name=node_name,
            node_addresses=node_addresses,
            configuration=ConfigurationStatus(sent_to=sent_to) if sent_to else None,
            conditions=conditions,
        ),
    )


def _ready(reason: Ready) -> Condition:
    status = "True" if reason is Ready.CONVERGED else "False"
    return Condition(type="Ready", status=status, reason=reason)


def lost(**fields: Any) -> TalosMachine:
    """A machine that was sent, is known by its hostname and cannot be read."""
    defaults: dict[str, Any] = {
        "approved": True,
        "pin": PIN,
        "sent_to": PIN,
        "hostname": "worker-1",
        "ready": Ready.CURRENT_CONFIG_UNAVAILABLE,
    }
    return machine(**defaults | fields)


def seen(*addresses: str | tuple[str, str]) -> tuple[SeenAddress, ...]:
    pairs = ((one, "") if isinstance(one, str) else one for one in addresses)
    return tuple(SeenAddress(address=address, fingerprint=fingerprint) for address, fingerprint in pairs)


def discovery(*addresses: str | tuple[str, str], identity: Identity = IDENTITY, site: str = "s") -> EndpointObserved:
    """A picture; addresses without a certificate get one and the same."""
    pairs = tuple((one, OTHER_PIN) if isinstance(one, str) else one for one in addresses)
    return EndpointObserved(source=Source.DISCOVERY, addresses=seen(*pairs), identity=identity, site=site)


def node(*addresses: str, name: str = "worker-1", system_uuid: str = "") -> EndpointObserved:
    ref = NodeRef(name=name, uid="node-uid", resource_version="1", system_uuid=system_uuid)
    return EndpointObserved(source=Source.NODE, addresses=seen(*addresses), node=ref)


def lookup(*addresses: str, name: str = "worker-1") -> EndpointObserved:
    told = node(*addresses, name=name)
    ref = MachineRef(namespace="nodetrail", name="one", uid="uid-1")
    return msgspec.structs.replace(told, source=Source.LOOKUP, machine=ref)


def read(*addresses: str) -> EndpointObserved:
    ref = MachineRef(namespace="nodetrail", name="one", uid="uid-1")
    return EndpointObserved(source=Source.READ, addresses=seen(*addresses), machine=ref)


def facts(about: TalosMachine | None, observation: EndpointObserved, **others: Any) -> Facts:
    """Facts with nothing against them; a discovery observation is its site's newest picture."""
    at = others.get("observed_at", SEEN_AT)
    pictures: tuple[Picture, ...] = ()
    if observation.source is Source.DISCOVERY:
        pictures = (Picture(site=observation.site, observed_at=at, addresses=observation.addresses),)
    defaults: dict[str, Any] = {
        "machine": about,
        "source": observation.source,
        "observation": observation,
        "observation_id": "id-1",
        "observed_at": at,
        "pictures": pictures,
        "now": NOW,
        "limits": LIMITS,
    }
    return Facts(**defaults | others)


def picture(*addresses: str | tuple[str, str], site: str = "far", at: datetime = SEEN_AT) -> Picture:
    return Picture(site=site, observed_at=at, addresses=discovery(*addresses).addresses)
