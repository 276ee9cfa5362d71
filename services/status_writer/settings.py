"""What the environment may set, beside what every service reads."""

from __future__ import annotations

import ipaddress

from libs import rules, runtime


class Settings(runtime.CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the status writer."""

    denied_ranges: tuple[str, ...] = ()
    """CIDRs that are never a node's own: pod, service, overlay and VIP ranges."""
    allowed_ranges: tuple[str, ...] = ()
    """Exceptions to the denied ranges and to the refusal of loopback, such as 127.0.0.0/8 for simulated nodes."""

    @property
    def limits(self) -> rules.Limits:
        """The same, as the rules want it."""
        return rules.Limits(denied=_networks(self.denied_ranges), allowed=_networks(self.allowed_ranges))

    @staticmethod
    def check_denied_ranges(value: tuple[str, ...]) -> None:
        """Refuse what is no CIDR."""
        _networks(value)

    @staticmethod
    def check_allowed_ranges(value: tuple[str, ...]) -> None:
        """Refuse what is no CIDR, and what nothing can make a node's address."""
        for network in _networks(value):
            first = network.network_address
            # A wide range such as ::/0 holds such addresses too; the rules refuse them all the same.
            if network.prefixlen and (network.is_link_local or network.is_multicast or first.is_unspecified):
                raise ValueError(f"{network}: unspecified, multicast and link-local addresses are never dialled")


def _networks(texts: tuple[str, ...]) -> tuple[rules.Network, ...]:
    found = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a CIDR range such as 10.244.0.0/16 ({error})") from error
        if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
            raise ValueError(f"{text!r}: write an IPv4 range as such; IPv4-mapped addresses count as IPv4")
        found.append(network)
    return tuple(found)
