"""When two identities are one box: a match needs agreement, and one contradiction is enough against it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from libs.identity.model import Identity
from libs.identity.signals import Signals, normalise, normalise_uuid


class Signal(StrEnum):
    """The three things by which a box is known."""

    UUID = "uuid"
    SERIAL = "serial"
    MACS = "macs"


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """How a seen identity compares with a declared one, signal by signal."""

    agreeing: tuple[Signal, ...] = ()
    contradicting: tuple[Signal, ...] = ()
    unknown: tuple[Signal, ...] = ()
    is_enough: bool = False
    """Whether what agrees would do, if nothing contradicted."""

    @property
    def is_match(self) -> bool:
        """The seen box is the declared one, as far as hardware says so."""
        return self.is_enough and not self.contradicting

    @property
    def is_conflict(self) -> bool:
        """Some signals say it is the declared box and others that it is not."""
        return bool(self.agreeing) and bool(self.contradicting)

    @property
    def is_weak(self) -> bool:
        """It may be the declared box, but too little speaks for it."""
        return bool(self.agreeing) and not self.contradicting and not self.is_enough

    def __str__(self) -> str:
        parts = (("agree", self.agreeing), ("contradict", self.contradicting), ("unknown", self.unknown))
        return "; ".join(f"{', '.join(signals)} {word}" for word, signals in parts if signals)


def match(
    declared: Identity,
    seen: Identity,
    *,
    shared: frozenset[str] = frozenset(),
    shown_by_others: frozenset[str] = frozenset(),
) -> Match:
    """Compare for discovery.

    `shared` are values (tokens, see `Signals.tokens`) learned to be several boxes'; they count as unknown.
    `shown_by_others` are values that another machine declares or another live box shows just now: they
    forbid a match that rests on one signal alone.
    """
    return match_signals(
        normalise(declared).without(shared), normalise(seen).without(shared), shown_by_others=shown_by_others
    )


def proves(declared: Identity, seen: Identity) -> bool:
    """Whether an identity read over mTLS is the declared one.

    Values that others show too do not weaken this: certificates vouch for the cluster, and what is asked
    is only which of its boxes answers. Placeholders say nothing here either, so an identity without any
    usable signal is never proven.
    """
    return match_signals(normalise(declared), normalise(seen)).is_match


def compare_uuids(declared: str, seen: str) -> bool | None:
    """Whether two UUIDs are one, in either byte order; None when one of them is blank or unusable."""
    left, right = normalise_uuid(declared), normalise_uuid(seen)
    return left == right if left and right else None


def match_signals(declared: Signals, seen: Signals, *, shown_by_others: frozenset[str] = frozenset()) -> Match:
    """Compare two sets of usable signals; see `match`."""
    verdicts = {
        Signal.UUID: declared.uuid == seen.uuid if declared.uuid and seen.uuid else None,
        Signal.SERIAL: declared.serial == seen.serial if declared.serial and seen.serial else None,
        Signal.MACS: not declared.macs.isdisjoint(seen.macs) if declared.macs and seen.macs else None,
    }
    agreeing = tuple(signal for signal, verdict in verdicts.items() if verdict is True)
    return Match(
        agreeing=agreeing,
        contradicting=tuple(signal for signal, verdict in verdicts.items() if verdict is False),
        unknown=tuple(signal for signal, verdict in verdicts.items() if verdict is None),
        is_enough=len(agreeing) >= 2 or (len(agreeing) == 1 and _alone_is_enough(declared, seen, shown_by_others)),
    )


def _alone_is_enough(declared: Signals, seen: Signals, shown_by_others: frozenset[str]) -> bool:
    """One agreeing signal will do where no other is declared and nobody else shows it; MACs only as a whole set."""
    if declared.count != 1 or not shown_by_others.isdisjoint(declared.tokens):
        return False
    return declared.macs == seen.macs if declared.macs else True
