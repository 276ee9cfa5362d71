"""What a site looks like: each identity in maintenance mode, every address it answers at, and its certificates.

Pure: answers go in with the time they were made, pictures come out. An address stays in an identity's picture
until the end of the first sweep in which it did not answer with that identity, or until a second look finds
somebody else or nobody there. An identity without addresses is shown empty once and then forgotten.

Sweeps agree when they see the same usable signals: a box whose SystemInformation was still missing is another
identity than the same box with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from libs import identity as identities
from libs.events import SeenAddress
from libs.events.model import ADDRESSES_MAX
from libs.identity import Identity

IDENTITIES_MAX = 10_000
SECOND_LOOKS_MAX = 3
"""Of one identity in one sweep: boxes that change with every connection must not keep us dialling."""


class Answer(msgspec.Struct, frozen=True):
    """One box said who it is, on a connection with this certificate; `at` is seconds of a monotonic clock."""

    address: str
    fingerprint: str
    identity: Identity
    at: float


class Picture(msgspec.Struct, frozen=True):
    """One identity as the site sees it now; `made_at` is when its newest evidence was made."""

    identity: Identity
    addresses: tuple[SeenAddress, ...]
    sweep: int
    sweeps_agreeing: int
    made_at: float


@dataclass
class _Seen:
    fingerprint: str
    sweep: int
    at: float


@dataclass
class _Known:
    identity: Identity
    sweep: int = 0
    sweeps_agreeing: int = 0
    seen: dict[str, _Seen] = field(default_factory=dict)
    lost_one: bool = False
    second_looks: int = 0
    emptied_at: float = 0.0


class Site:
    """The pictures of all identities of one site."""

    def __init__(self, *, identities_max: int = IDENTITIES_MAX) -> None:
        self.sweep = 0
        self.left_out = 0
        """Answers that found no room in this sweep's pictures."""
        self._identities_max = identities_max
        self._known: dict[str, _Known] = {}

    def __len__(self) -> int:
        """Return how many identities are known."""
        return len(self._known)

    def begin_sweep(self) -> int:
        """Begin the next sweep and return its number, counted from 1."""
        self.sweep += 1
        self.left_out = 0
        return self.sweep

    def saw(self, answer: Answer) -> str | None:
        """Take in an answer; return the identity's key when its picture is another now."""
        key = identities.key(answer.identity)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._identities_max:
                self.left_out += 1
                return None
            known = self._known[key] = _Known(answer.identity)
        if known.sweep != self.sweep:
            known.sweep = self.sweep
            known.sweeps_agreeing += 1
            known.second_looks = 0
        before = known.seen.get(answer.address)
        if before is None and len(known.seen) >= ADDRESSES_MAX:
            self.left_out += 1
            return None
        known.identity = answer.identity
        known.seen[answer.address] = _Seen(answer.fingerprint, self.sweep, answer.at)
        return key if before is None or before.fingerprint != answer.fingerprint else None

    def lost(self, key: str, address: str, *, at: float) -> None:
        """Take an address out at once: a second look at it did not find that identity."""
        known = self._known.get(key)
        if known is not None and known.seen.pop(address, None) is not None:
            known.lost_one, known.emptied_at = True, at

    def end_sweep(self, *, at: float) -> list[str]:
        """Take out what did not answer in this sweep; return the keys of all identities, those now empty too."""
        for key, known in self._known.items():
            for address in [a for a, seen in known.seen.items() if seen.sweep != self.sweep]:
                self.lost(key, address, at=at)
        return list(self._known)

    def second_look(self, key: str) -> tuple[str, ...]:
        """Return the addresses to dial again before the picture may be shown; counts as done with that.

        One identity under two certificates may be two boxes, or one that rebooted during the sweep. And what is
        left of a picture that lost an address is news, which needs evidence as fresh as the loss.
        """
        known = self._known.get(key)
        if known is None or known.second_looks >= SECOND_LOOKS_MAX:
            return ()
        fingerprints = {seen.fingerprint for seen in known.seen.values()}
        if not known.lost_one and len(fingerprints) < 2:
            return ()
        known.second_looks += 1
        return tuple(known.seen)

    def show(self, key: str) -> Picture | None:
        """Return the picture to publish, None when there is none; an empty one is forgotten with that."""
        known = self._known.get(key)
        if known is None:
            return None
        known.lost_one = False
        if not known.seen:
            del self._known[key]
        return Picture(
            identity=known.identity,
            addresses=tuple(SeenAddress(address=a, fingerprint=s.fingerprint) for a, s in sorted(known.seen.items())),
            sweep=self.sweep,
            sweeps_agreeing=known.sweeps_agreeing,
            made_at=max((seen.at for seen in known.seen.values()), default=known.emptied_at),
        )
