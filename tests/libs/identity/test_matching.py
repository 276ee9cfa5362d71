"""When a seen identity is a declared one: the good case, then one fact changed at a time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs import identity
from libs.identity import Identity, Signal

UUID = "4c4c4544-0042-3510-8052-b3c04f4b4e32"
SWAPPED = "44454C4C-4200-1035-8052-B3C04F4B4E32"
OTHER_UUID = "7c1f0e5a-1111-4222-8333-444455556666"
MAC, MAC2, MAC3 = "52:54:00:12:34:56", "52:54:00:12:34:57", "52:54:00:12:34:58"
ZEROS = "00000000-0000-0000-0000-000000000000"
FULL = Identity(uuid=UUID, serial_number="CZ2903", mac_addresses=(MAC, MAC2))


def changed(base: Identity, **fields: object) -> Identity:
    return msgspec.structs.replace(base, **fields)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(FULL, id="the same"),
        pytest.param(changed(FULL, uuid=SWAPPED), id="the other byte order"),
        pytest.param(changed(FULL, serial_number="cz2903"), id="another case"),
        pytest.param(changed(FULL, mac_addresses=(MAC2, MAC3)), id="one link in common"),
        pytest.param(changed(FULL, uuid=""), id="no UUID seen"),
        pytest.param(changed(FULL, uuid=ZEROS), id="a UUID of zeros is unknown"),
        pytest.param(changed(FULL, serial_number="To be filled by O.E.M."), id="a placeholder is unknown"),
        pytest.param(changed(FULL, mac_addresses=()), id="no links seen"),
    ],
)
def test_two_agreeing_and_none_contradicting_is_a_match(seen: Identity) -> None:
    assert identity.match(FULL, seen).is_match
    assert identity.proves(FULL, seen)


@pytest.mark.parametrize(
    ("seen", "signal"),
    [
        (changed(FULL, uuid=OTHER_UUID), Signal.UUID),
        (changed(FULL, serial_number="other1"), Signal.SERIAL),
        (changed(FULL, mac_addresses=(MAC3,)), Signal.MACS),
    ],
)
def test_one_contradiction_is_a_conflict(seen: Identity, signal: Signal) -> None:
    found = identity.match(FULL, seen)
    assert found.contradicting == (signal,)
    assert found.is_conflict
    assert not found.is_match
    assert not identity.proves(FULL, seen)


def test_another_box_altogether_is_neither() -> None:
    found = identity.match(FULL, Identity(uuid=OTHER_UUID, serial_number="other1", mac_addresses=(MAC3,)))
    assert not found.is_match
    assert not found.is_conflict
    assert not found.is_weak


def test_one_agreeing_is_too_little_where_more_is_declared() -> None:
    found = identity.match(FULL, Identity(uuid=UUID))
    assert found.is_weak
    assert not found.is_match
    assert not identity.proves(FULL, Identity(uuid=UUID))


@pytest.mark.parametrize("declared", [Identity(uuid=UUID), Identity(serial_number="CZ2903")])
def test_one_is_enough_where_only_that_is_declared(declared: Identity) -> None:
    assert identity.match(declared, FULL).is_match
    assert identity.proves(declared, FULL)


def test_a_declared_placeholder_counts_as_not_declared() -> None:
    assert identity.match(Identity(uuid=ZEROS, serial_number="CZ2903"), FULL).is_match


def test_one_is_not_enough_where_others_show_it() -> None:
    found = identity.match(Identity(uuid=UUID), FULL, shown_by_others=identity.normalise(FULL).tokens)
    assert found.is_weak
    unrelated = identity.match(Identity(uuid=UUID), FULL, shown_by_others=frozenset({"serial:cz2903"}))
    assert unrelated.is_match


@pytest.mark.parametrize(("seen", "enough"), [((MAC2, MAC), True), ((MAC,), False), ((MAC, MAC2, MAC3), False)])
def test_macs_alone_match_as_a_whole_set_only(*, seen: tuple[str, ...], enough: bool) -> None:
    declared = Identity(mac_addresses=(MAC, MAC2))
    assert identity.match(declared, Identity(mac_addresses=seen)).is_match is enough
    assert identity.proves(declared, Identity(mac_addresses=seen)) is enough


def test_values_learned_as_shared_weaken_discovery_and_not_the_proof() -> None:
    twin_boards = changed(FULL, serial_number="other1", mac_addresses=())
    shared = frozenset({f"uuid:{identity.normalise_uuid(UUID)}"})
    assert identity.match(FULL, twin_boards).is_conflict
    assert not identity.match(FULL, twin_boards, shared=shared).is_conflict
    uuid_and_serial = Identity(uuid=UUID, serial_number="CZ2903")
    assert identity.match(FULL, uuid_and_serial).is_match
    assert identity.match(FULL, uuid_and_serial, shared=shared).is_weak
    assert identity.proves(FULL, uuid_and_serial)


def test_nothing_declared_is_never_proven() -> None:
    assert not identity.proves(Identity(), FULL)
    assert not identity.match(Identity(), FULL).is_match
    assert not identity.proves(Identity(uuid=ZEROS), Identity(uuid=ZEROS))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(UUID, SWAPPED, True), (UUID, OTHER_UUID, False), (UUID, ZEROS, None), ("", UUID, None)],
)
def test_system_uuids_are_compared_by_themselves(*, left: str, right: str, same: bool | None) -> None:
    assert identity.compare_uuids(left, right) is same


texts = st.sampled_from(["", UUID, SWAPPED, OTHER_UUID, ZEROS])
serials = st.sampled_from(["", "a1", "A1", "b2", "Default string"])
links = st.lists(st.sampled_from([MAC, MAC2, MAC3, "00:00:00:00:00:00"]), max_size=3).map(tuple)
identities = st.builds(Identity, uuid=texts, serial_number=serials, mac_addresses=links)


@given(identities, identities)
def test_every_signal_has_exactly_one_verdict(declared: Identity, seen: Identity) -> None:
    found = identity.match(declared, seen)
    assert sorted(found.agreeing + found.contradicting + found.unknown) == sorted(Signal)
    assert sum((found.is_match, found.is_conflict, found.is_weak)) <= 1


@given(identities, identities)
def test_what_agrees_does_not_depend_on_who_declared(one: Identity, other: Identity) -> None:
    assert identity.match(one, other).agreeing == identity.match(other, one).agreeing
    assert identity.match(one, other).contradicting == identity.match(other, one).contradicting


@given(identities, identities, st.sets(st.sampled_from(["uuid:" + UUID, "serial:a1", "mac:" + MAC])))
def test_learning_a_shared_value_never_makes_more_signals_agree(
    declared: Identity, seen: Identity, shared: set[str]
) -> None:
    with_shared = identity.match(declared, seen, shared=frozenset(shared))
    assert set(with_shared.agreeing) <= set(identity.match(declared, seen).agreeing)
