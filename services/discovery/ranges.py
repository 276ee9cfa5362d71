"""What is swept: CIDRs, addresses and `host:port`, with `!` for what is left out, as spans of numbers.

Spans are merged and exclusions cut out once, so that a sweep only counts up: a /8 costs no memory and an
address that two ranges name is dialled once.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from libs.endpoint import DEFAULT_PORT, Endpoint, InvalidEndpointError, parse_endpoint

RANGE_MAX = 1 << 24
"""Addresses in one range, those of an IPv4 /8."""


class Target(NamedTuple):
    """One address to dial, as the socket calls want it."""

    family: socket.AddressFamily
    address: tuple[str, int]

    @property
    def endpoint(self) -> Endpoint:
        """The same as an endpoint."""
        return Endpoint(*self.address)


class Span(msgspec.Struct, frozen=True, order=True):
    """Addresses `first` to `last`, both included, as numbers; port 0 in an exclusion means every port."""

    version: int
    port: int
    first: int
    last: int


class Ranges(msgspec.Struct, frozen=True):
    """What to sweep: disjoint spans, and DNS names, which stand for what they resolve to when swept."""

    spans: tuple[Span, ...]
    names: tuple[Endpoint, ...] = ()

    @property
    def size(self) -> int:
        """How many addresses the spans hold."""
        return sum(span.last - span.first + 1 for span in self.spans)

    def targets(self) -> Iterator[Target]:
        """Count through the spans; names are not among them."""
        for span in self.spans:
            yield from _count(span)


def parse_ranges(texts: Iterable[str]) -> Ranges:
    """Read the entries; raises `ValueError` that names every wrong one."""
    wanted: list[Span] = []
    excluded: list[Span] = []
    names: list[Endpoint] = []
    problems: list[str] = []
    for text in texts:
        try:
            entry = _entry(text.removeprefix("!").strip())
            if not text.startswith("!"):
                _check_swept(entry)
        except ValueError as error:
            problems.append(str(error))
            continue
        if isinstance(entry, Span):
            (excluded if text.startswith("!") else wanted).append(entry)
        elif text.startswith("!"):
            problems.append(f"{text!r} excludes a name: exclude its addresses")
        else:
            names.append(entry)
    ranges = Ranges(tuple(_cut(_merged(wanted), excluded)), tuple(dict.fromkeys(names)))
    if not problems and not ranges.spans and not names:
        problems.append("nothing is left to sweep: " + ("all of it is excluded" if wanted else "no range is given"))
    if problems:
        raise ValueError("; ".join(problems))
    return ranges


def target(address: str, port: int) -> Target:
    """Return the target of one address given as text."""
    return Target(socket.AF_INET6 if ":" in address else socket.AF_INET, (address, port))


def _entry(text: str) -> Span | Endpoint:
    """Read one entry without its `!`; a span without a port of its own has port 0."""
    if "/" in text:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a CIDR: {error}") from error
        return Span(network.version, 0, int(network[0]), int(network[-1]))
    try:
        endpoint = parse_endpoint(text, default_port=0)
    except InvalidEndpointError as error:
        raise ValueError(f"{error}, nor a CIDR") from error
    address = endpoint.address
    if address is None:
        return Endpoint(endpoint.host, endpoint.port or DEFAULT_PORT)
    return Span(address.version, endpoint.port, int(address), int(address))


def _check_swept(entry: Span | Endpoint) -> None:
    if not isinstance(entry, Span):
        return
    first, last = _address(entry.version, entry.first), _address(entry.version, entry.last)
    if entry.last - entry.first >= RANGE_MAX:
        raise ValueError(f"{first}-{last} has more than {RANGE_MAX:,} addresses: name smaller ranges")
    if first.is_unspecified or first.is_multicast or last.is_multicast:
        raise ValueError(f"{first}-{last} holds addresses that no node can have")


def _address(version: int, number: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number)


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(msgspec.structs.replace(s, port=s.port or DEFAULT_PORT) for s in spans):
        last = merged[-1] if merged else None
        if last and (last.version, last.port) == (span.version, span.port) and span.first <= last.last + 1:
            merged[-1] = msgspec.structs.replace(last, last=max(last.last, span.last))
        else:
            merged.append(span)
    return merged


def _cut(spans: list[Span], excluded: list[Span]) -> list[Span]:
    """Return the spans without the excluded addresses."""
    for hole in excluded:
        spans = [piece for span in spans for piece in _without(span, hole)]
    return spans


def _without(span: Span, hole: Span) -> Iterator[Span]:
    if hole.version != span.version or hole.port not in (0, span.port):
        yield span
        return
    if span.first < hole.first:
        yield msgspec.structs.replace(span, last=min(span.last, hole.first - 1))
    if span.last > hole.last:
        yield msgspec.structs.replace(span, first=max(span.first, hole.last + 1))


def _count(span: Span) -> Iterator[Target]:
    numbers = range(span.first, span.last + 1)
    if span.version == 4:
        for number in numbers:
            yield Target(socket.AF_INET, (socket.inet_ntoa(number.to_bytes(4, "big")), span.port))
    else:
        for number in numbers:
            yield Target(socket.AF_INET6, (socket.inet_ntop(socket.AF_INET6, number.to_bytes(16, "big")), span.port))
