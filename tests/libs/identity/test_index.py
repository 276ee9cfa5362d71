"""The index answers as comparing with every declared identity one by one would, only faster."""

from hypothesis import given
from hypothesis import strategies as st

from libs import identity
from libs.identity import Identity, Index
from tests.libs.identity.test_matching import FULL, MAC, MAC2, MAC3, UUID, changed, identities


def index_of(*declared: Identity) -> Index[int]:
    index: Index[int] = Index()
    for key, one in enumerate(declared):
        index.put(key, one)
    return index


def test_finds_the_one_that_matches() -> None:
    index = index_of(FULL, Identity(serial_number="else1"), Identity(mac_addresses=(MAC3,)))
    found = index.find(FULL)
    assert found.only == 0
    assert not found.conflicting


def test_two_that_match_are_both_named() -> None:
    found = index_of(FULL, changed(FULL, mac_addresses=())).find(FULL)
    assert set(found.matching) == {0, 1}
    assert found.only is None


def test_a_link_that_belongs_to_another_machine_is_a_conflict() -> None:
    other = Identity(uuid="7c1f0e5a-1111-4222-8333-444455556666", mac_addresses=(MAC3,))
    found = index_of(FULL, other).find(changed(FULL, mac_addresses=(MAC, MAC3)))
    assert set(found.matching) == {0}
    assert set(found.conflicting) == {1}
    assert found.only is None


def test_a_single_signal_that_two_machines_declare_matches_neither() -> None:
    found = index_of(Identity(serial_number="cz2903"), Identity(serial_number="CZ2903")).find(FULL)
    assert not found.matching
    assert set(found.weak) == {0, 1}


def test_a_single_signal_that_another_live_box_shows_matches_nobody() -> None:
    index = index_of(Identity(serial_number="cz2903"))
    assert index.find(FULL).only == 0
    assert index.find(FULL, shown_by_others=frozenset({"serial:cz2903"})).only is None


def test_removing_and_changing() -> None:
    index = index_of(FULL)
    version = index.version
    index.put(0, changed(FULL, serial_number="cz2903"))
    assert index.version == version, "another spelling changes no answer"
    index.put(0, Identity(serial_number="else1"))
    assert index.find(FULL).only is None
    assert index.version > version
    index.remove(0)
    index.remove(0)
    assert len(index) == 0
    assert index.find(Identity(serial_number="else1")).only is None


def test_a_value_that_a_crowd_declares_is_ignored() -> None:
    crowd = [Identity(serial_number=f"cz{i}", mac_addresses=(MAC2,)) for i in range(100)]
    index = index_of(*crowd)
    found = index.find(Identity(serial_number="new1", mac_addresses=(MAC2,)))
    assert not found.conflicting
    assert index.find(Identity(serial_number="cz7", mac_addresses=(MAC2,))).only == 7
    assert len(index.holders(f"mac:{MAC2}")) == 100


def test_shared_values_do_not_find() -> None:
    shared = frozenset({f"uuid:{identity.normalise_uuid(UUID)}"})
    assert not index_of(FULL).find(Identity(uuid=UUID), shared=shared).weak


@given(st.lists(identities, max_size=8), identities)
def test_same_answer_as_one_by_one(declared: list[Identity], seen: Identity) -> None:
    found = index_of(*declared).find(seen)
    for key, one in enumerate(declared):
        others = frozenset[str]().union(*(identity.normalise(o).tokens for k, o in enumerate(declared) if k != key))
        compared = identity.match(one, seen, shown_by_others=others)
        assert (key in found.matching) is compared.is_match
        assert (key in found.conflicting) is compared.is_conflict
        assert (key in found.weak) is compared.is_weak
