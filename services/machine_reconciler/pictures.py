"""What discovery sees in maintenance mode: the newest picture of each identity at each site, and what follows.

Certificates are kept in status for the operator to compare and pin. One identity alive behind two
certificates is two boxes, or one box and an impostor: a conflict that a person must settle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from libs.events import EndpointObserved, SeenAddress, subjects
from libs.identity import Identity, Index
from libs.machine import MaintenanceSighting, TalosMachine

ALIVE = timedelta(minutes=5)
"""A picture that was not confirmed for this long says nothing about the present."""
PICTURES_MAX = 20_000
SHOWN_MAX = 64
"""Pictures of one machine that are looked at, the newest; so many already are a conflict for a person."""
PLACES_MAX = 4
"""Places and addresses of each that a conflict names; the rest is counted."""
CERTIFICATES_MAX = 4
ADDRESSES_MAX = 16


class Picture(msgspec.Struct, frozen=True):
    """One site's picture of one identity."""

    identity: Identity
    site: str
    addresses: tuple[SeenAddress, ...]
    made_at: datetime


class Pictures:
    """The newest pictures, by subject; bounded."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._pictures: OrderedDict[str, Picture] = OrderedDict()
        # However many claim one identity, none of them may hide the others.
        self._identities: Index[str] = Index(crowd=PICTURES_MAX)

    def put(self, subject: str, observed: EndpointObserved, made_at: datetime) -> bool:
        """Take in a picture; True when it shows other certificates or addresses than the last, or none was alive."""
        if observed.identity is None:
            return False
        old = self._pictures.get(subject)
        if old is not None and made_at < old.made_at:
            return False
        new = Picture(observed.identity, _site(subject, observed.site), observed.addresses, made_at)
        self._pictures[subject] = new
        self._pictures.move_to_end(subject)
        self._identities.put(subject, new.identity)
        while len(self._pictures) > PICTURES_MAX:
            self._identities.remove(self._pictures.popitem(last=False)[0])
        return old is None or set(old.addresses) != set(new.addresses) or not self._is_alive(old)

    def of(self, machine: TalosMachine) -> list[Picture]:
        """Return the living pictures of a machine's identity, the newest first."""
        found = self._identities.find(machine.spec.identity)
        pictures = [self._pictures[subject] for subject in found.matching.keys() | found.weak.keys()]
        alive = [picture for picture in pictures if picture.addresses and self._is_alive(picture)]
        return sorted(alive, key=lambda picture: picture.made_at, reverse=True)[:SHOWN_MAX]

    def _is_alive(self, picture: Picture) -> bool:
        return self._clock() - picture.made_at < ALIVE


def certificates(pictures: Iterable[Picture]) -> dict[str, list[str]]:
    """Return the addresses behind each certificate, over all pictures."""
    found: dict[str, list[str]] = {}
    for picture in pictures:
        for seen in picture.addresses:
            if seen.fingerprint and seen.address not in found.setdefault(seen.fingerprint, []):
                found[seen.fingerprint].append(seen.address)
    return found


def sightings(known: tuple[MaintenanceSighting, ...], pictures: Iterable[Picture]) -> tuple[MaintenanceSighting, ...]:
    """Return the newest certificates for status; one that is known and where it was stays as it is."""
    kept = {(sighting.fingerprint, sighting.site): sighting for sighting in known}
    for picture in pictures:
        for fingerprint, addresses in certificates([picture]).items():
            place = (fingerprint, picture.site)
            new = MaintenanceSighting(
                fingerprint=fingerprint,
                addresses=tuple(sorted(addresses)[:ADDRESSES_MAX]),
                site=picture.site,
                time=picture.made_at.replace(microsecond=0),
            )
            old = kept.get(place)
            if old is None or old.addresses != new.addresses:
                kept[place] = new
    newest = sorted(
        kept.values(), key=lambda s: (s.time or datetime.min.replace(tzinfo=UTC), s.fingerprint), reverse=True
    )
    return tuple(newest[:CERTIFICATES_MAX])


def conflict(pictures: list[Picture], *, running_at: str, sent_to: str) -> str:
    """Say which boxes share one identity just now, or nothing.

    `running_at` is where a node proves it at present: the certificate `sent_to` was that node's own, before.
    """
    alive = {f: addresses for f, addresses in certificates(pictures).items() if not running_at or f != sent_to}
    places = [f"in maintenance mode at {_few(sorted(at))} with the certificate {f}" for f, at in sorted(alive.items())]
    if running_at:
        places.insert(0, f"as a running node at {running_at}")
    if len(places) < 2:
        return ""
    return f"one identity is alive in {len(places)} places: {_few(places, '; ')}"


def _few(texts: list[str], joint: str = ", ") -> str:
    """Name the first, count the others: how many there are is up to whoever sends them."""
    more = len(texts) - PLACES_MAX
    return joint.join([*texts[:PLACES_MAX], f"{more} more"] if more > 0 else texts)


def _site(subject: str, told: str) -> str:
    """Return the site that the subject vouches for, in its readable spelling if the payload tells just that one."""
    vouched = subjects.site_of(subject) or ""
    return told if subjects.token(told) == vouched else vouched
