"""Where something can be dialled: parsing, normalising and writing addresses and endpoints.

Text comes in as people and Kubernetes write it and leaves in one canonical form, so that two spellings
of one address compare equal. Nothing here resolves names or opens connections.
"""

from __future__ import annotations

import ipaddress
import re

import msgspec

DEFAULT_PORT = 50000
"""The Talos API's port, in maintenance mode and configured alike."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")


class InvalidEndpointError(ValueError):
    """The text is neither an address nor a DNS name, or its port is not one."""


class Endpoint(msgspec.Struct, frozen=True, order=True):
    """A host and a port to dial; `host` is a canonical IP address or a lower-case DNS name."""

    host: str
    port: int = DEFAULT_PORT

    @property
    def address(self) -> Address | None:
        """The IP address, or None when the host is a DNS name and stands for what it resolves to."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read an IP address; IPv4-mapped IPv6 is folded to IPv4. A zone is refused: it means nothing elsewhere."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError as error:
        raise InvalidEndpointError(f"{text!r} is not an IP address") from error
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise InvalidEndpointError(f"{text!r} has a zone, which means nothing on another host")
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
    return address


def normalise_address(text: str) -> str:
    """Return the canonical text of an IP address, or raise `InvalidEndpointError`."""
    return str(parse_address(text))


def parse_endpoint(text: str, default_port: int = DEFAULT_PORT) -> Endpoint:
    """Read `10.0.0.1`, `10.0.0.1:50000`, `2001:db8::1`, `[2001:db8::1]:50000` or `node.example[:port]`."""
    host, port = _split(text.strip(), default_port)
    try:
        return Endpoint(normalise_address(host), port)
    except InvalidEndpointError:
        if ":" in host or "%" in host:
            raise
    name = host.rstrip(".").lower()
    labels = name.split(".")
    if not name or len(name) > 253 or labels[-1].isdigit() or not all(map(_LABEL.match, labels)):
        raise InvalidEndpointError(f"{text!r} is neither an IP address nor a DNS name")
    return Endpoint(name, port)


def on_port_of(declared: str, address: str) -> str:
    """Write `address` the way `declared` is written: with its port if it has one, bare otherwise."""
    canonical = normalise_address(address)
    _, port = _split(declared.strip(), 0)
    return str(Endpoint(canonical, port)) if port else canonical


def _split(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or ":" not in host:
            raise InvalidEndpointError(f"{text!r} is not an address in brackets")
        return host, _port(text, rest[1:]) if rest else default_port
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(text, port)
    return text, default_port


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise InvalidEndpointError(f"{text!r} has no port between 1 and 65535 after the colon")
    return int(port)
