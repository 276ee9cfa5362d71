"""Ranges: what is swept is what was meant, each address once, and every wrong entry is named."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.endpoint import Endpoint
from libs.runtime import SettingsError, settings_from_environ
from services.discovery.ranges import parse_ranges
from services.discovery.settings import Settings


def swept(*texts: str) -> list[str]:
    return [str(target.endpoint) for target in parse_ranges(texts).targets()]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["192.0.2.4/30"], [f"192.0.2.{n}:50000" for n in (4, 5, 6, 7)]),
        (["192.0.2.9"], ["192.0.2.9:50000"]),
        (["192.0.2.9:50001", "192.0.2.9"], ["192.0.2.9:50000", "192.0.2.9:50001"]),
        (["2001:db8::fe/127"], ["[2001:db8::fe]:50000", "[2001:db8::ff]:50000"]),
        (["[2001:db8::1]:6000"], ["[2001:db8::1]:6000"]),
        (["::ffff:192.0.2.1"], ["192.0.2.1:50000"]),
        (["192.0.2.0/30", "!192.0.2.1"], [f"192.0.2.{n}:50000" for n in (0, 2, 3)]),
        (["192.0.2.0/29", "!192.0.2.2/31", "!192.0.2.4/30"], [f"192.0.2.{n}:50000" for n in (0, 1)]),
        (["!192.0.2.1", "192.0.2.0/31", "192.0.2.1:50001"], ["192.0.2.0:50000"]),
        (["192.0.2.0/31", "192.0.2.1:50001", "!192.0.2.1:50001"], ["192.0.2.0:50000", "192.0.2.1:50000"]),
        (["192.0.2.0/31", "192.0.2.0/31", "192.0.2.1/32"], ["192.0.2.0:50000", "192.0.2.1:50000"]),
        (["192.0.2.0/31", "!2001:db8::/32"], ["192.0.2.0:50000", "192.0.2.1:50000"]),
    ],
)
def test_what_is_swept(texts: list[str], expected: list[str]) -> None:
    assert swept(*texts) == expected
    assert parse_ranges(texts).size == len(expected)


def test_names_are_kept_as_names() -> None:
    ranges = parse_ranges(["Box.Example:6000", "box.example.:6000", "other"])
    assert ranges.names == (Endpoint("box.example", 6000), Endpoint("other", 50000))
    assert not ranges.spans


def test_a_large_range_is_counted_not_held() -> None:
    ranges = parse_ranges(["10.0.0.0/8", "!10.255.0.0/16"])
    assert ranges.size == 255 * 65536
    assert next(ranges.targets()).address == ("10.0.0.0", 50000)
    assert next(ranges.targets()).family == socket.AF_INET


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.1/24", "host bits"),
        ("10.0.0.0/33", "CIDR"),
        ("10.0.0.0/7", "more than 16,777,216"),
        ("2001:db8::/64", "more than 16,777,216"),
        ("10.0.0.256", "neither an IP address"),
        ("10.0.0.1:0", "port"),
        ("10.0.0.1:70000", "port"),
        ("fe80::1%eth0", "zone"),
        ("0.0.0.0/8", "no node can have"),
        ("224.0.0.1", "no node can have"),
        ("!box.example", "excludes a name"),
        ("!10.0.0.1", "excluded|no range"),
        ("", "neither"),
    ],
)
def test_a_wrong_entry_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_ranges([text])


def test_every_wrong_setting_and_every_wrong_range_is_named() -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from_environ(
            Settings,
            {
                "NODETRAIL_RANGES": "10.0.0.0/24,10.0.0.1/24,nonsense!,!192.0.2.0/24",
                "NODETRAIL_SWEEP_RATE": "0",
                "NODETRAIL_SWEEP_SECONDS": "soon",
                "NODETRAIL_PROBE_TIMEOUT_SECONDS": "-1",
                "NODETRAIL_KUBECONFIG": "x",
            },
        )
    text = str(caught.value)
    for word in ("RANGES", "10.0.0.1/24", "nonsense!", "SWEEP_RATE", "SWEEP_SECONDS", "PROBE_TIMEOUT", "KUBECONFIG"):
        assert word in text


def test_ranges_are_required_and_the_rest_has_the_documented_defaults() -> None:
    with pytest.raises(SettingsError, match="NODETRAIL_RANGES: is required"):
        settings_from_environ(Settings, {})
    settings = settings_from_environ(Settings, {"NODETRAIL_RANGES": "10.0.0.0/24, !10.0.0.1"})
    assert (settings.site, settings.sweep_seconds, settings.sweep_rate) == ("default", 60, 2000)
    assert settings.probe_timeout_seconds == 2
    assert parse_ranges(settings.ranges).size == 255


NETWORKS = st.builds(
    lambda number, bits: str(ipaddress.ip_network((0xC0000200 + (number >> (32 - bits) << (32 - bits)), bits))),
    st.integers(0, 255),
    st.integers(24, 32),
)


@given(wanted=st.lists(NETWORKS, min_size=1, max_size=6), excluded=st.lists(NETWORKS, max_size=6))
def test_ranges_are_the_set_that_they_describe(wanted: list[str], excluded: list[str]) -> None:
    def members(networks: list[str]) -> set[int]:
        return {int(address) for network in networks for address in ipaddress.ip_network(network)}

    expected = sorted(members(wanted) - members(excluded))
    texts = [*wanted, *(f"!{network}" for network in excluded)]
    if not expected:
        with pytest.raises(ValueError, match="nothing is left"):
            parse_ranges(texts)
        return
    found = [target.address[0] for target in parse_ranges(texts).targets()]
    assert found == [str(ipaddress.ip_address(number)) for number in expected]
