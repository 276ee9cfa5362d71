"""Events travel as CloudEvents in binary mode, and what is none of ours is told apart."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.events import EndpointObserved, NodeRef, SeenAddress, UndecodableEventError, decode, encode
from libs.events.cloudevents import MESSAGE_BYTES_MAX
from libs.identity import Identity
from libs.machine import Source

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SEEN = EndpointObserved(
    source=Source.NODE,
    addresses=(SeenAddress(address="10.0.0.1"),),
    node=NodeRef(name="cp-1", uid="u-1", resource_version="7"),
    age_seconds=0.25,
)
KIND = "dev.nodetrail.EndpointObserved.v1"


def test_the_attributes_are_headers_and_the_event_is_json() -> None:
    headers, data = encode(SEEN, message_id="m-1", source="node_watcher", time=NOW, traceparent="00-a-b-01")
    assert headers == {
        "Nats-Msg-Id": "m-1",
        "ce-specversion": "1.0",
        "ce-type": KIND,
        "ce-source": "node_watcher",
        "ce-id": "m-1",
        "ce-time": "2026-01-02T03:04:05Z",
        "content-type": "application/json",
        "traceparent": "00-a-b-01",
    }
    assert msgspec.json.decode(data)["addresses"] == [{"address": "10.0.0.1"}]
    assert decode(headers, data) == SEEN


def test_fields_of_a_newer_version_are_ignored() -> None:
    newer = msgspec.to_builtins(SEEN) | {"colour": "blue"}
    assert decode({"ce-type": KIND}, msgspec.json.encode(newer)) == SEEN


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        pytest.param(None, b"{}", id="no headers"),
        pytest.param({"ce-type": "dev.nodetrail.EndpointObserved.v2"}, b"{}", id="unknown type"),
        pytest.param({"ce-type": KIND}, b"", id="empty"),
        pytest.param({"ce-type": KIND}, b"\xff\xfe", id="no text"),
        pytest.param({"ce-type": KIND}, b'{"source": "rumour", "addresses": []}', id="unknown source"),
        pytest.param({"ce-type": KIND}, b'{"source": "node"}', id="missing field"),
        pytest.param({"ce-type": KIND}, b"[" * 100_000, id="too deep and too large"),
        pytest.param({"ce-type": KIND}, b"[" * 60_000, id="too deep"),
        pytest.param(
            {"ce-type": KIND}, b'{"source":"node","addresses":[{"address":"' + b"1" * 65 + b'"}]}', id="long address"
        ),
        pytest.param({"ce-type": KIND}, b" " * (MESSAGE_BYTES_MAX + 1), id="too large"),
    ],
)
def test_anything_else_is_undecodable(headers: dict[str, str] | None, data: bytes) -> None:
    with pytest.raises(UndecodableEventError):
        decode(headers, data)


@given(st.binary())
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        decode({"ce-type": KIND}, data)
    except UndecodableEventError:
        return


@given(
    st.lists(st.builds(SeenAddress, address=st.text(max_size=64), fingerprint=st.text(max_size=64)), max_size=256),
    st.builds(Identity, uuid=st.text(max_size=64), serial_number=st.text(max_size=256)),
)
def test_what_is_within_the_bounds_arrives_as_it_was(addresses: list[SeenAddress], identity: Identity) -> None:
    event = EndpointObserved(source=Source.DISCOVERY, addresses=tuple(addresses), identity=identity, site="s")
    headers, data = encode(event, message_id="m", source="discovery", time=NOW)
    if len(data) <= MESSAGE_BYTES_MAX:
        assert decode(headers, data) == event
