"""Every kind of event is read again as it was written, and an event from a newer version as far as it is known."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from libs import events
from libs.events import (
    DeadLetter,
    EndpointDecided,
    EndpointObserved,
    MachineConfigurationSent,
    MachineReadinessChanged,
    MachineRef,
    MachineRegistered,
    NodeRef,
    NodeSighted,
    Outcome,
    SeenAddress,
)
from libs.identity import Identity
from libs.machine import Source

MADE = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)

texts = st.text(max_size=20)
machines = st.builds(MachineRef, namespace=texts, name=texts, uid=texts)
identities = st.builds(Identity, uuid=texts, serial_number=texts, mac_addresses=st.lists(texts, max_size=3).map(tuple))
observations = st.builds(
    EndpointObserved,
    source=st.sampled_from(Source),
    addresses=st.lists(st.builds(SeenAddress, address=texts, fingerprint=texts), max_size=3).map(tuple),
    age_seconds=st.floats(min_value=0, max_value=1e9),
    identity=st.none() | identities,
    node=st.none() | st.builds(NodeRef, name=texts, uid=texts, resource_version=texts, system_uuid=texts),
    machine=st.none() | machines,
    site=texts,
    sweep=st.integers(min_value=0, max_value=2**31),
)
everything = (
    observations
    | st.builds(
        EndpointDecided,
        outcome=st.sampled_from(Outcome),
        reason=texts,
        rule=texts,
        message=texts,
        source=st.sampled_from(Source),
        machine=st.none() | machines,
        observed_at=st.none() | st.datetimes(timezones=st.just(UTC)),
        observation=observations,
        repeats=st.integers(min_value=0, max_value=9),
    )
    | st.builds(NodeSighted, site=texts, address=texts, common_name=texts, fingerprint=texts)
    | st.builds(MachineRegistered, machine=machines, identity=identities, endpoint=texts)
    | st.builds(MachineReadinessChanged, machine=machines, status=texts, reason=texts, message=texts)
    | st.builds(
        MachineConfigurationSent,
        machine=machines,
        dialled=texts,
        fingerprint=texts,
        hash=texts,
        accepted=st.booleans(),
    )
    | st.builds(
        DeadLetter,
        subject=texts,
        stream=texts,
        sequence=st.integers(min_value=0),
        consumer=texts,
        error=texts,
        data=texts,
        data_bytes=st.integers(min_value=0),
    )
)


@settings(deadline=None)
@given(everything)
def test_what_is_written_is_read_again(event: events.Event) -> None:
    headers, data = events.encode(event, message_id="id", source="test", time=MADE)
    assert events.decode(headers, data) == event


@settings(deadline=None)
@given(everything)
def test_fields_of_a_newer_version_are_ignored_at_any_depth(event: events.Event) -> None:
    headers, data = events.encode(event, message_id="id", source="test", time=MADE)
    assert events.decode(headers, msgspec.json.encode(_with_more(msgspec.json.decode(data)))) == event


def _with_more(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_more(field) for key, field in value.items()} | {"newer": {"field": [1, None]}}
    return [_with_more(one) for one in value] if isinstance(value, list) else value
