"""One measured figure: what it is, the floor or peer it is held against in the same run, and the design's target."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

ROUNDS = 3


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`value` and `floor` are medians; `ratio` is the median of the rounds' ratios; `met` is None without a target."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_is: str = ""
    ratio: float | None = None
    ratios: tuple[float, ...] = ()
    target: str = ""
    met: bool | None = None


def against_floor(
    name: str,
    pairs: Sequence[tuple[float, float]],
    *,
    unit: str,
    floor_is: str,
    target: float,
    better: Literal["more", "less"],
) -> Row:
    """Make a row of rounds of (value, floor): met when the ratio is at least (or at most) the target."""
    ratios = tuple(value / floor for value, floor in pairs)
    ratio = statistics.median(ratios)
    holds: Callable[[float, float], bool] = float.__ge__ if better == "more" else float.__le__
    return Row(
        name=name,
        value=statistics.median(value for value, _ in pairs),
        unit=unit,
        floor=statistics.median(floor for _, floor in pairs),
        floor_is=floor_is,
        ratio=ratio,
        ratios=tuple(sorted(ratios)),
        target=f"{'≥' if better == 'more' else '≤'} {target:g} x",
        met=holds(ratio, target),
    )


def plain(name: str, values: Sequence[float], *, unit: str, target: float | None = None) -> Row:
    """Make a row of repeated measurements without a floor; the worst is held against the target."""
    return Row(
        name=f"{name} (median; worst {max(values):.3g})",
        value=statistics.median(values),
        unit=unit,
        target="" if target is None else f"≤ {target:g} {unit}",
        met=None if target is None else max(values) <= target,
    )
