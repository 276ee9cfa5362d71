"""The picture of a site: who answers where, from when to when, and what must be looked at twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from libs import identity as identities
from libs.events.model import ADDRESSES_MAX
from libs.identity import Identity
from services.discovery.picture import SECOND_LOOKS_MAX, Answer, Picture, Site
from tests.services.discovery.boxes import identity

ONE, TWO = identity(1), identity(2)
KEY = identities.key(ONE)


def answer(address: str, *, who: Identity = ONE, leaf: str = "leaf", at: float = 1.0) -> Answer:
    return Answer(address, leaf, who, at)


def shown(site: Site, who: Identity = ONE) -> dict[str, str]:
    picture = site.show(identities.key(who))
    return {} if picture is None else {seen.address: seen.fingerprint for seen in picture.addresses}


def show(site: Site) -> Picture:
    picture = site.show(KEY)
    assert picture is not None
    return picture


def site_after(*answers: Answer) -> Site:
    """A site after one whole sweep with these answers, all of it shown."""
    site = Site()
    sweep(site, *answers)
    return site


def sweep(site: Site, *answers: Answer, at: float = 9.0) -> list[str]:
    site.begin_sweep()
    for one in answers:
        site.saw(one)
    keys = site.end_sweep(at=at)
    for key in keys:
        site.second_look(key)
        site.show(key)
    return keys


def test_a_new_identity_a_new_address_and_a_new_leaf_are_changes_and_nothing_else_is() -> None:
    site = Site()
    site.begin_sweep()
    assert site.saw(answer("a")) == KEY
    assert site.saw(answer("a")) is None
    assert site.saw(answer("b")) == KEY
    assert site.saw(answer("a", leaf="other")) == KEY
    assert site.saw(answer("c", who=TWO)) == identities.key(TWO)
    site.end_sweep(at=2)
    site.begin_sweep()
    assert site.saw(answer("b")) is None
    assert (
        site.saw(
            answer("c", who=Identity(serial_number="sn000002 ", uuid=TWO.uuid.upper(), mac_addresses=TWO.mac_addresses))
        )
        is None
    )


def test_an_address_leaves_at_the_end_of_the_first_sweep_without_it() -> None:
    site = site_after(answer("a"), answer("b"))
    site.begin_sweep()
    site.saw(answer("a"))
    assert shown(site) == {"a": "leaf", "b": "leaf"}
    site.end_sweep(at=2)
    assert shown(site) == {"a": "leaf"}


def test_an_address_where_somebody_else_answers_now_leaves_the_old_picture_too() -> None:
    site = site_after(answer("a"))
    assert set(sweep(site, answer("a", who=TWO))) == {KEY, identities.key(TWO)}
    assert site.show(KEY) is None
    assert shown(site, TWO) == {"a": "leaf"}


def test_what_vanished_is_shown_empty_once_and_then_forgotten() -> None:
    site = site_after(answer("a"))
    site.begin_sweep()
    assert site.end_sweep(at=7.5) == [KEY]
    empty = show(site)
    assert (empty.addresses, empty.made_at, empty.identity) == ((), 7.5, ONE)
    assert site.show(KEY) is None
    assert len(site) == 0


def test_agreeing_sweeps_are_counted_once_each_and_begin_anew_after_a_gap() -> None:
    site = Site()
    for expected in (1, 2, 3):
        site.begin_sweep()
        site.saw(answer("a"))
        site.saw(answer("b"))
        assert (show(site).sweeps_agreeing, show(site).sweep) == (expected, expected)
        site.end_sweep(at=1)
    sweep(site)
    site.begin_sweep()
    site.saw(answer("a"))
    assert show(site).sweeps_agreeing == 1


def test_a_box_whose_system_information_was_missing_is_counted_anew_with_it() -> None:
    macs_only = Identity(mac_addresses=ONE.mac_addresses)
    site = site_after(answer("a", who=macs_only))
    sweep(site, answer("a", who=macs_only))
    sweep(site, answer("a"))
    assert show(site).sweeps_agreeing == 1


def test_the_time_of_a_picture_is_that_of_its_newest_evidence() -> None:
    site = Site()
    site.begin_sweep()
    site.saw(answer("a", at=3.0))
    site.saw(answer("b", at=5.0))
    site.saw(answer("c", at=4.0))
    site.end_sweep(at=60)
    assert show(site).made_at == 5.0


def test_one_certificate_at_several_addresses_needs_no_second_look() -> None:
    site = Site()
    site.begin_sweep()
    site.saw(answer("a"))
    site.saw(answer("b"))
    assert site.second_look(KEY) == ()


def test_two_certificates_need_one() -> None:
    site = Site()
    site.begin_sweep()
    site.saw(answer("a", leaf="before"))
    site.saw(answer("b", leaf="after"))
    assert set(site.second_look(KEY)) == {"a", "b"}


def test_a_box_that_rebooted_during_the_sweep_is_not_its_own_twin() -> None:
    site = Site()
    site.begin_sweep()
    site.saw(answer("a", leaf="before"))
    assert site.saw(answer("b", leaf="after", at=2.0)) == KEY
    site.second_look(KEY)
    site.saw(answer("b", leaf="after", at=3.0))
    site.lost(KEY, "a", at=3.5)
    assert shown(site) == {"b": "after"}
    assert show(site).made_at == 3.0


def test_a_box_that_showed_a_new_leaf_at_both_addresses_is_one_box_after_the_second_look() -> None:
    site = site_after(answer("a", leaf="old"), answer("b", leaf="old"))
    site.begin_sweep()
    site.saw(answer("a", leaf="new"))
    assert set(site.second_look(KEY)) == {"a", "b"}
    site.saw(answer("a", leaf="new"))
    site.saw(answer("b", leaf="new"))
    assert shown(site) == {"a": "new", "b": "new"}
    assert site.second_look(KEY) == ()


def test_what_is_left_after_a_loss_is_looked_at_again_once() -> None:
    site = site_after(answer("a"), answer("b"))
    site.begin_sweep()
    site.saw(answer("b"))
    site.end_sweep(at=2)
    assert site.second_look(KEY) == ("b",)
    site.show(KEY)
    assert site.second_look(KEY) == ()


def test_second_looks_end_though_the_box_changes_with_every_connection() -> None:
    site = Site()
    site.begin_sweep()
    site.saw(answer("b", leaf="other"))
    looks = 0
    for number in range(20):
        site.saw(answer("a", leaf=f"leaf-{number}"))
        looks += bool(site.second_look(KEY))
    assert looks == SECOND_LOOKS_MAX
    site.begin_sweep()
    site.saw(answer("a", leaf="next sweep"))
    assert site.second_look(KEY)


def test_hostile_numbers_of_addresses_and_identities_are_bounded() -> None:
    site = Site(identities_max=3)
    site.begin_sweep()
    for number in range(ADDRESSES_MAX + 10):
        site.saw(answer(f"a{number}"))
    for number in range(10, 20):
        site.saw(answer("x", who=identity(number)))
    assert len(shown(site)) == ADDRESSES_MAX
    assert len(site) == 3
    assert site.left_out == 10 + 8
    assert site.saw(answer("a1", leaf="renewed")) == KEY, "those known already keep their place"


ANSWERS = st.lists(
    st.builds(
        Answer,
        address=st.sampled_from(["a", "b", "c", "d"]),
        fingerprint=st.sampled_from(["x", "y"]),
        identity=st.sampled_from([ONE, TWO]),
        at=st.floats(0, 9),
    ),
    max_size=8,
)


@given(sweeps=st.lists(ANSWERS, min_size=1, max_size=6))
def test_after_a_sweep_a_picture_holds_exactly_what_answered_in_it(sweeps: list[list[Answer]]) -> None:
    site = Site()
    agreeing = {ONE: 0, TWO: 0}
    for answers in sweeps:
        site.begin_sweep()
        for one in answers:
            site.saw(one)
        keys = site.end_sweep(at=10)
        for who in (ONE, TWO):
            seen = {one.address: one.fingerprint for one in answers if one.identity == who}
            agreeing[who] = agreeing[who] + 1 if seen else 0
            assert (identities.key(who) in keys) >= bool(seen)
            picture = site.show(identities.key(who))
            if picture is None:
                assert not seen
                continue
            assert {a.address: a.fingerprint for a in picture.addresses} == seen
            assert not seen or picture.sweeps_agreeing == agreeing[who]
            assert list(picture.addresses) == sorted(picture.addresses, key=lambda a: a.address)


@given(sweeps=st.lists(ANSWERS, min_size=1, max_size=5))
def test_whatever_changed_was_announced(sweeps: list[list[Answer]]) -> None:
    """Who shows a picture whenever told to is never behind."""
    site = Site()
    told: dict[str, dict[str, str]] = {}

    def tell(key: str | None) -> None:
        picture = site.show(key) if key else None
        if key and picture:
            told[key] = {seen.address: seen.fingerprint for seen in picture.addresses}

    for answers in sweeps:
        site.begin_sweep()
        for one in answers:
            tell(site.saw(one))
            key = identities.key(one.identity)
            assert told[key][one.address] == one.fingerprint
        for key in site.end_sweep(at=10):
            tell(key)
        for who in (ONE, TWO):
            seen = {one.address: one.fingerprint for one in answers if one.identity == who}
            assert told.get(identities.key(who), {}) == seen
