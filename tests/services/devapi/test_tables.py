"""Printer columns: paths and ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.devapi import tables

ITEM = {
    "spec": {"endpoint": "e", "list": [1, {"x": 2}], "dotted.key": "d"},
    "status": {"conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.endpoint", "e"),
        (".spec.nothing.below", None),
        (".spec.list[1].x", 2),
        (".spec.list[9]", None),
        (".spec['dotted.key']", "d"),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        ('.status.conditions[?(@.type=="None")].status', None),
    ],
)
def test_paths(path: str, found: object) -> None:
    assert tables.compiled(path)(ITEM) == found


def test_a_path_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        tables.compiled("..spec")


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        (timedelta(seconds=-5), "0s"), (timedelta(seconds=119), "119s"), (timedelta(seconds=121), "2m1s"),
        (timedelta(minutes=10), "10m"), (timedelta(hours=3), "3h"), (timedelta(hours=5, minutes=7), "5h7m"),
        (timedelta(hours=30), "30h"), (timedelta(days=3, hours=2), "3d2h"), (timedelta(days=40), "40d"),
    ],
)  # fmt: skip
def test_ages(ago: timedelta, shown: str) -> None:
    assert tables.age((datetime.now(UTC) - ago).isoformat()) == shown


def test_an_age_of_nothing() -> None:
    assert tables.age("yesterday") == "<unknown>"
