"""Normalising, unusable values, and the names made from an identity."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs import identity
from libs.identity import Identity, Signals

UUID = "4c4c4544-0042-3510-8052-b3c04f4b4e32"
SWAPPED = "44454c4c-4200-1035-8052-b3c04f4b4e32"
MAC = "52:54:00:12:34:56"

uuids = st.uuids().map(str)
serials = st.text(max_size=20)
macs = st.binary(min_size=6, max_size=6).map(lambda b: b.hex(":"))
identities = st.builds(
    Identity, uuid=uuids | serials, serial_number=serials, mac_addresses=st.lists(macs, max_size=4).map(tuple)
)


@pytest.mark.parametrize(
    "spelling",
    [UUID, UUID.upper(), f" {UUID}\n", f"{{{UUID}}}", UUID.replace("-", ""), SWAPPED, SWAPPED.upper()],
)
def test_every_spelling_of_a_uuid_is_the_same(spelling: str) -> None:
    assert identity.normalise_uuid(spelling) == min(UUID, SWAPPED)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "11111111-1111-1111-1111-111111111111",
        "fefefefe-fefe-fefe-fefe-fefefefefefe",
        "03000200-0400-0500-0006-000700080009",
        "00020003-0004-0005-0006-000700080009",
        "00010203-0405-0607-0809-0A0B0C0D0E0F",
        "12345678-1234-5678-90AB-CDDEEFAABBCC",
        "Not Present",
        "Not Settable",
    ],
)
def test_uuids_that_identify_nobody(value: str) -> None:
    assert identity.normalise_uuid(value) == ""


@pytest.mark.parametrize(
    "value",
    [
        "",
        "To Be Filled By O.E.M.",
        "to be filled by OEM",
        "ToBeFilledByO.E.M",
        "Default string",
        "System Serial Number",
        "Not Specified",
        "N/A",
        "NONE",
        "0",
        "0000000000",
        "........",
        "xxxxxxx",
        "0123456789",
        "123456789",
        "1234567890",
    ],
)
def test_serials_that_identify_nobody(value: str) -> None:
    assert identity.normalise(Identity(serial_number=value)) == Signals()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "no mac",
        "52:54:00:12:34",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:fb",
        "be:3a:f2:b6:05:9f",
        "00:11:22:33:44:55",
    ],
)
def test_macs_that_identify_nobody(value: str) -> None:
    assert identity.normalise(Identity(mac_addresses=(value,))) == Signals()


def test_usable_values_stay() -> None:
    raw = Identity(uuid="Rack 7, third from above", serial_number=" ABC  123 ", mac_addresses=("52-54-00-12-34-56",))
    assert identity.normalise(raw) == Signals(uuid="rack 7, third from above", serial="abc 123", macs=frozenset({MAC}))


def test_a_box_with_absurdly_many_links_is_not_believed_about_them() -> None:
    many = tuple(f"52:54:00:00:{i // 256:02x}:{i % 256:02x}" for i in range(300))
    assert identity.normalise(Identity(serial_number="abc1", mac_addresses=many)) == Signals(serial="abc1")


@given(identities)
def test_names_and_keys_do_not_depend_on_spelling(raw: Identity) -> None:
    respelt = Identity(
        uuid=raw.uuid.upper() if re.fullmatch(r"[0-9a-f-]{36}", raw.uuid) else raw.uuid,
        serial_number=f" {raw.serial_number} ",
        mac_addresses=tuple(mac.upper().replace(":", "-") for mac in reversed(raw.mac_addresses)),
    )
    assert identity.key(respelt) == identity.key(raw)
    assert identity.object_name(respelt) == identity.object_name(raw)


@given(identities)
def test_names_are_valid_everywhere(raw: Identity) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", identity.object_name(raw))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,63}", identity.key(raw))


@given(identities, identities)
def test_different_signals_have_different_names(one: Identity, other: Identity) -> None:
    same = identity.normalise(one) == identity.normalise(other)
    assert (identity.key(one) == identity.key(other)) is same
    assert (identity.object_name(one) == identity.object_name(other)) is same


def test_the_object_name_shows_the_serial_number() -> None:
    name = identity.object_name(Identity(serial_number="CZ-29/03 X", uuid=UUID))
    assert name.startswith("cz-29-03-x-")
    assert identity.object_name(Identity(uuid=UUID)).startswith("machine-")
