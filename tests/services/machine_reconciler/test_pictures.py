"""Certificates for the operator to pin, and twins."""

from __future__ import annotations

from datetime import timedelta

import pytest

from libs.events import EndpointObserved, SeenAddress, subjects
from libs.identity import Identity
from libs.machine import MaintenanceSighting, Source
from services.machine_reconciler.pictures import ALIVE, CERTIFICATES_MAX, Pictures, conflict, sightings
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, IDENTITY, OTHER, PIN, machine
from tests.services.machine_reconciler.fakes import MOMENT


def at(site: str) -> str:
    return subjects.observed_discovery("here" if site == "s" else site, "id")


def picture(*seen: tuple[str, str], site: str = "here", identity: Identity = IDENTITY) -> EndpointObserved:
    addresses = tuple(SeenAddress(address=address, fingerprint=fingerprint) for address, fingerprint in seen)
    return EndpointObserved(source=Source.DISCOVERY, addresses=addresses, identity=identity, site=site)


@pytest.fixture
def pictures() -> Pictures:
    return Pictures(clock=lambda: MOMENT)


def test_only_a_changed_picture_is_news(pictures: Pictures) -> None:
    assert pictures.put(at("s"), picture((HERE, PIN)), MOMENT)
    assert not pictures.put(at("s"), picture((HERE, PIN)), MOMENT + timedelta(seconds=1))
    assert pictures.put(at("s"), picture((HERE, OTHER)), MOMENT + timedelta(seconds=2))
    assert not pictures.put(at("s"), picture((HERE, PIN)), MOMENT), "an older one changes nothing"


def test_pictures_of_another_identity_or_long_ago_are_not_a_machines(pictures: Pictures) -> None:
    pictures.put(
        at("other"), picture((HERE, PIN), identity=Identity(uuid="99999999-2222-4333-8444-555555555555")), MOMENT
    )
    pictures.put(at("old"), picture((HERE, PIN)), MOMENT - ALIVE)
    pictures.put(at("gone"), picture(), MOMENT)
    assert pictures.of(machine()) == []
    pictures.put(at("alive"), picture((HERE, PIN)), MOMENT)
    assert len(pictures.of(machine())) == 1


def test_a_certificate_is_listed_once_with_its_addresses_and_not_rewritten_each_sweep(pictures: Pictures) -> None:
    pictures.put(at("s"), picture((ELSEWHERE, PIN), (HERE, PIN)), MOMENT)
    first = sightings((), pictures.of(machine()))
    assert first == (MaintenanceSighting(fingerprint=PIN, addresses=(HERE, ELSEWHERE), site="here", time=MOMENT),)
    pictures.put(at("s"), picture((HERE, PIN), (ELSEWHERE, PIN)), MOMENT + timedelta(seconds=60))
    assert sightings(first, pictures.of(machine())) == first


def test_the_newest_four_certificates_stay(pictures: Pictures) -> None:
    known: tuple[MaintenanceSighting, ...] = ()
    for number in range(6):
        pictures.put(at("s"), picture((HERE, f"F{number}")), MOMENT + timedelta(seconds=number))
        known = sightings(known, pictures.of(machine()))
    assert [sighting.fingerprint for sighting in known] == ["F5", "F4", "F3", "F2"]
    assert len(known) == CERTIFICATES_MAX


def test_one_identity_behind_two_certificates_is_a_conflict_that_names_both(pictures: Pictures) -> None:
    pictures.put(at("s"), picture((HERE, PIN), (ELSEWHERE, OTHER)), MOMENT)
    text = conflict(pictures.of(machine()), running_at="", sent_to="")
    assert all(part in text for part in (HERE, ELSEWHERE, PIN, OTHER))


def test_two_sites_that_see_one_certificate_are_no_conflict(pictures: Pictures) -> None:
    pictures.put(at("a"), picture((HERE, PIN), site="a"), MOMENT)
    pictures.put(at("b"), picture((ELSEWHERE, PIN), site="b"), MOMENT)
    assert conflict(pictures.of(machine()), running_at="", sent_to="") == ""


def test_a_running_node_and_a_box_in_maintenance_are_a_conflict_but_not_its_own_last_picture(
    pictures: Pictures,
) -> None:
    pictures.put(at("s"), picture((HERE, PIN)), MOMENT)
    seen = pictures.of(machine())
    assert conflict(seen, running_at=HERE, sent_to=PIN) == ""
    assert ELSEWHERE in conflict(seen, running_at=ELSEWHERE, sent_to=OTHER)


def test_what_has_no_certificate_is_not_offered_as_a_pin(pictures: Pictures) -> None:
    pictures.put(at("s"), picture((HERE, "")), MOMENT)
    assert sightings((), pictures.of(machine())) == ()


def test_a_site_is_the_one_that_the_subject_vouches_for(pictures: Pictures) -> None:
    pictures.put(at("a"), picture((HERE, PIN), site="b"), MOMENT)
    assert [one.site for one in pictures.of(machine())] == ["a"]
    pictures.put(at("rack 1"), picture((HERE, PIN), site="rack 1"), MOMENT + timedelta(seconds=1))
    assert pictures.of(machine())[0].site == "rack 1", "readable, where it is the same"


def test_a_crowd_of_claimants_hides_nobody(pictures: Pictures) -> None:
    for number in range(100):
        claim = Identity(
            uuid=IDENTITY.uuid, serial_number=IDENTITY.serial_number, mac_addresses=(f"02:00:00:00:00:{number:02x}",)
        )
        pictures.put(at(f"c{number}"), picture((HERE, PIN), identity=claim), MOMENT)
    pictures.put(at("s"), picture((ELSEWHERE, OTHER)), MOMENT + timedelta(seconds=1))
    found = pictures.of(machine(identity=Identity(uuid=IDENTITY.uuid, serial_number=IDENTITY.serial_number)))
    assert found[0].addresses[0].address == ELSEWHERE
    assert conflict(found, running_at="", sent_to="")


def test_a_conflict_names_a_few_and_counts_the_rest(pictures: Pictures) -> None:
    many = tuple((f"10.1.{n // 250}.{n % 250}", f"F{n:043}") for n in range(1000))
    pictures.put(at("s"), picture(*many), MOMENT)
    text = conflict(pictures.of(machine()), running_at=HERE, sent_to="")
    assert text.startswith("one identity is alive in 1001 places: as a running node")
    assert text.endswith("997 more")
    assert len(text) < 1000
