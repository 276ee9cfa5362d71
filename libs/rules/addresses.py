"""The addresses of an observation: which of them may be dialled, and which one would be taken."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import msgspec

from libs.endpoint import DEFAULT_PORT, Address, Endpoint, InvalidEndpointError, on_port_of, parse_endpoint
from libs.machine import Source, TalosMachine, dial_endpoint
from libs.rules.facts import Facts

_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One address of an observation, on the port that it would be dialled on; None if it is no address."""

    text: str
    endpoint: Endpoint | None
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.fingerprint})" if self.fingerprint else self.text


@lru_cache(maxsize=65_536)
def endpoint_of(text: str, port: int) -> Endpoint | None:
    """Read an address, on `port` unless it says otherwise; None if it is neither address nor name."""
    try:
        return parse_endpoint(text, port)
    except InvalidEndpointError:
        return None


def declared_port(machine: TalosMachine) -> int:
    """Return the port on which every address of this machine is dialled."""
    declared = endpoint_of(machine.spec.endpoint, DEFAULT_PORT)
    return declared.port if declared is not None else DEFAULT_PORT


def dialled(facts: Facts) -> frozenset[Endpoint]:
    """Return what the machine's dial endpoint stands for: itself, or what its DNS name resolves to."""
    if facts.machine is None:
        return frozenset()
    return stands_for(dial_endpoint(facts.machine), facts)


def stands_for(text: str, facts: Facts) -> frozenset[Endpoint]:
    """Return the addresses, with port, that an endpoint stands for; none if it does not resolve."""
    endpoint = endpoint_of(text, DEFAULT_PORT)
    if endpoint is None:
        return frozenset()
    if endpoint.address is not None:
        return frozenset({endpoint})
    resolved = (endpoint_of(address, endpoint.port) for address in facts.resolved.get(endpoint.host, ()))
    return frozenset(address for address in resolved if address is not None)


def seen(facts: Facts) -> tuple[Seen, ...]:
    """Return the observation's addresses in its own order."""
    port = declared_port(facts.machine) if facts.machine else DEFAULT_PORT
    return tuple(
        Seen(text=one.address, endpoint=endpoint_of(one.address, port), fingerprint=one.fingerprint)
        for one in facts.observation.addresses
    )


def why_not_dialable(one: Seen, facts: Facts) -> str:
    """Say why this address is never dialled, or nothing when it may be."""
    if one.endpoint is None or one.endpoint.address is None:
        return "not an IP address"
    if facts.machine is not None and one.endpoint.port != declared_port(facts.machine):
        return "on another port than spec.endpoint"
    special = _why_special(one.endpoint.address)
    if special and not (special == "loopback" and _is_in(one.endpoint.address, facts.limits.allowed)):
        return special
    if _is_in(one.endpoint.address, facts.limits.denied) and not _is_in(one.endpoint.address, facts.limits.allowed):
        return "in a denied range"
    if facts.source is not Source.READ and one.endpoint in facts.claimed:
        return f"where machine {facts.claimed[one.endpoint]} is Ready"
    return ""


def candidates(facts: Facts) -> tuple[Seen, ...]:
    """Return the addresses elsewhere that may be dialled, those of the dial endpoint's family first."""
    dials = dialled(facts)
    versions = {endpoint.address.version for endpoint in dials if endpoint.address is not None}
    elsewhere = [one for one in seen(facts) if one.endpoint not in dials and not why_not_dialable(one, facts)]
    return tuple(sorted(elsewhere, key=lambda one: _version(one) not in versions))


def as_written(machine: TalosMachine, one: Seen) -> str:
    """Write an address as `spec.endpoint` is written, with or without its port."""
    if one.endpoint is None:
        return ""
    try:
        return on_port_of(machine.spec.endpoint, one.endpoint.host)
    except InvalidEndpointError:  # stored before the schema forbade it
        return one.endpoint.host


def _why_special(address: Address) -> str:
    if address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK):
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_multicast or address == _BROADCAST:
        return "multicast"
    return "link-local" if address.is_link_local else ""


def _is_in(address: Address, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> bool:
    return any(address in network for network in networks)


def _version(one: Seen) -> int:
    address = one.endpoint.address if one.endpoint is not None else None
    return address.version if address is not None else 0
