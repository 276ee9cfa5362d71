"""Endpoints and addresses: every spelling of one place is equal, and what is none is refused."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.endpoint import Endpoint, InvalidEndpointError, normalise_address, on_port_of, parse_endpoint


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1", "10.0.0.1", 50000),
        ("10.0.0.1:50001", "10.0.0.1", 50001),
        (" 10.0.0.1 ", "10.0.0.1", 50000),
        ("2001:DB8::1", "2001:db8::1", 50000),
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1", 50000),
        ("[2001:db8::1]", "2001:db8::1", 50000),
        ("[2001:db8::1]:50001", "2001:db8::1", 50001),
        ("::ffff:10.0.0.1", "10.0.0.1", 50000),
        ("[::ffff:10.0.0.1]:50001", "10.0.0.1", 50001),
        ("Node.Example", "node.example", 50000),
        ("node.example.:50001", "node.example", 50001),
        ("node-1", "node-1", 50000),
    ],
)
def test_what_is_an_endpoint(text: str, host: str, port: int) -> None:
    assert parse_endpoint(text) == Endpoint(host, port)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            ":",
            ":50000",
            "10.0.0.1:",
            "10.0.0.1:0",
            "10.0.0.1:65536",
            "10.0.0.1:x",
            "10.0.0.1:-1",
            "10.0.0.1:+1",
        ),
        *(
            "10.0.0.1:\uff15",
            "10.0.0.256",
            "10.0.0",
            "1.2.3.4.5",
            "010.0.0.1",
            "2001:db8::1::",
            "fe80::1%eth0",
            "[fe80::1%eth0]:1",
        ),
        *(
            "[2001:db8::1",
            "[2001:db8::1]x",
            "[10.0.0.1]",
            "[]",
            "[]:1",
            "-node",
            "node-",
            "a..b",
            "no de",
            "a" * 64,
            "a." * 127 + "ab",
        ),
        *("node/x", "user@node", "http://10.0.0.1", "10.0.0.1/24", "node\n"[:-1] + "\x00", "é"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InvalidEndpointError):
        parse_endpoint(text)


@given(st.ip_addresses().filter(lambda a: not getattr(a, "ipv4_mapped", None)), st.integers(1, 65535))
def test_what_is_written_is_read_again(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> None:
    endpoint = Endpoint(str(address), port)
    assert parse_endpoint(str(endpoint)) == endpoint
    assert endpoint.address == address


@given(st.ip_addresses(v=6))
def test_every_spelling_of_an_address_is_one(address: ipaddress.IPv6Address) -> None:
    assert normalise_address(address.exploded.upper()) == normalise_address(address.compressed)


@given(st.ip_addresses(v=4))
def test_mapped_addresses_are_folded(address: ipaddress.IPv4Address) -> None:
    assert normalise_address(f"::ffff:{address}") == str(address)


@pytest.mark.parametrize(
    ("declared", "address", "written"),
    [
        ("10.0.0.1", "10.0.0.9", "10.0.0.9"),
        ("10.0.0.1:50000", "10.0.0.9", "10.0.0.9:50000"),
        ("10.0.0.1:50001", "2001:DB8::9", "[2001:db8::9]:50001"),
        ("[2001:db8::1]:50001", "10.0.0.9", "10.0.0.9:50001"),
        ("2001:db8::1", "2001:db8::9", "2001:db8::9"),
        ("node.example:50001", "10.0.0.9", "10.0.0.9:50001"),
        ("node.example", "::ffff:10.0.0.9", "10.0.0.9"),
    ],
)
def test_an_observed_address_is_written_as_the_declared_one(declared: str, address: str, written: str) -> None:
    assert on_port_of(declared, address) == written


@given(st.text())
def test_any_text_is_an_endpoint_or_refused(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except InvalidEndpointError:
        return
    assert parse_endpoint(str(endpoint)) == endpoint
