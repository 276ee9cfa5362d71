"""Objects as rows for `kubectl get`: the printer columns, each a small JSONPath."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from services.devapi.kinds import Column, Kind

Item = dict[str, Any]
Find = Callable[[Item], Any]

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z_][\w-]*)
      | \[\?\(@\.(?P<key>[\w-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]
      | \[(?P<index>\d+)\]
      | \[["'](?P<name>[^"']+)["']\]""",
    re.VERBOSE,
)
_AGE = Column(name="Age", type="date", path=".metadata.creationTimestamp")
_NAME = {"name": "Name", "type": "string", "format": "name", "priority": 0, "description": "Name of the object"}


def table(kind: Kind, items: Iterable[Item], metadata: Item) -> Item:
    """Return a Table of objects."""
    columns = kind.columns or (_AGE,)
    described = [
        {"name": c.name, "type": c.type, "format": "", "priority": c.priority, "description": ""} for c in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_NAME, *described],
        "rows": [_row(item, columns) for item in items],
    }


def _row(item: Item, columns: tuple[Column, ...]) -> Item:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
    return {"cells": [item["metadata"]["name"], *(_cell(item, column) for column in columns)], "object": partial}


def _cell(item: Item, column: Column) -> Any:
    value = compiled(column.path)(item)
    if column.type == "date":
        return age(value) if isinstance(value, str) else "<unknown>"
    if value is None:
        return None if column.type == "string" else ""
    return value if column.type in {"boolean", "integer", "number"} else str(value)


@lru_cache(maxsize=256)
def compiled(path: str) -> Find:
    """Return what finds the first value at a JSONPath; None where there is none. `ValueError` for other paths."""
    steps: list[Find] = []
    place = 0
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise ValueError(f"devapi cannot read the JSONPath {path!r} at {path[place:]!r}")
        steps.append(_step(found))
        place = found.end()

    def find(item: Any) -> Any:
        for step in steps:
            item = step(item)
        return item

    return find


def _step(found: re.Match[str]) -> Find:
    field = found["field"] or found["name"]
    if field is not None:
        return lambda value: value.get(field) if isinstance(value, dict) else None
    if found["index"] is not None:
        place = int(found["index"])
        return lambda value: value[place] if isinstance(value, list) and place < len(value) else None
    key, wanted = found["key"], found["value"]

    def first(value: Any) -> Any:
        items = value if isinstance(value, list) else []
        return next((item for item in items if isinstance(item, dict) and str(item.get(key)) == wanted), None)

    return first


def age(timestamp: str) -> str:
    """Write how long ago that was, as kubectl does."""
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<unknown>"
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    for limit, size, unit, below, small in (
        (120, 1, "s", 0, ""),
        (600, 60, "m", 1, "s"),
        (10_800, 60, "m", 0, ""),
        (28_800, 3600, "h", 60, "m"),
        (172_800, 3600, "h", 0, ""),
        (691_200, 86_400, "d", 3600, "h"),
    ):
        if seconds < limit:
            rest = seconds % size // below if below else 0
            return f"{seconds // size}{unit}" + (f"{rest}{small}" if rest else "")
    return f"{seconds // 86_400}d"
