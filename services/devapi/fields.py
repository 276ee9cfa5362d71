"""Sets of fields: which fields an object has, which differ between two, and how managedFields spells them.

A field is a path: a tuple of elements as fieldsV1 writes them (`f:name`, `k:{"type":"Ready"}`, `v:"a"`), so that a
set of fields is a plain frozenset and ownership is set algebra. The walks follow structured-merge-diff: a list
without keys and a map marked atomic are one field; a map is a field of its own only when it is empty or new.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

Schema = dict[str, Any]
Path = tuple[str, ...]
Fields = frozenset[Path]

NOTHING: Fields = frozenset()


def of(item: dict[str, Any], schema: Schema) -> Fields:
    """Return the fields that an applied configuration speaks of."""
    found: set[Path] = set()
    _walk(item, schema, (), found)
    return frozenset(found)


def _walk(value: Any, schema: Schema, path: Path, found: set[Path]) -> None:
    if isinstance(value, dict) and not _is_atomic_map(schema):
        properties = schema.get("properties", {})
        for key, inner in value.items():
            below = (*path, f"f:{key}")
            _walk(inner, _field_schema(schema, key), below, found)
            if inner is None or inner == {} or key not in properties:
                found.add(below)
    elif isinstance(value, list) and _is_keyed(schema):
        for element, inner in _elements(value, schema):
            _walk(inner, schema.get("items", {}), (*path, element), found)
            found.add((*path, element))
    else:
        found.add(path)


class Difference:
    """What a new object adds, changes and removes."""

    def __init__(self) -> None:
        self.added: set[Path] = set()
        self.modified: set[Path] = set()
        self.removed: set[Path] = set()


def compare(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> Difference:
    """Return by which fields two objects differ."""
    difference = Difference()
    _compare(old, new, schema, (), difference)
    return difference


class _Absent:
    """Stands for the side that has no value here."""


def _compare(old: Any, new: Any, schema: Schema, path: Path, difference: Difference) -> None:
    if old is new:
        return
    there = [value for value in (old, new) if value is not _Absent]
    if all(isinstance(value, dict) for value in there) and any(there) and not _is_atomic_map(schema):
        before, after = ({} if value is _Absent else value for value in (old, new))
        for key in before.keys() | after.keys():
            _compare(
                before.get(key, _Absent),
                after.get(key, _Absent),
                _field_schema(schema, key),
                (*path, f"f:{key}"),
                difference,
            )
    elif all(isinstance(value, list) for value in there) and any(there) and _is_keyed(schema):
        before, after = ({} if value is _Absent else dict(_elements(value, schema)) for value in (old, new))
        for element in before.keys() | after.keys():
            _compare(
                before.get(element, _Absent),
                after.get(element, _Absent),
                schema.get("items", {}),
                (*path, element),
                difference,
            )
    elif len(there) == 2 and old != new:
        if type(old) is not type(new):  # what lay below a value of another kind is gone with it
            _compare(old, _Absent, schema, path, difference)
            _compare(_Absent, new, schema, path, difference)
            difference.removed.discard(path)
            difference.added.discard(path)
        difference.modified.add(path)
    if old is _Absent:
        difference.added.add(path)
    elif new is _Absent:
        difference.removed.add(path)


def merged(live: Any, config: Any, schema: Schema) -> Any:
    """Return the live value with what a configuration says laid over it."""
    if isinstance(config, dict) and isinstance(live, dict) and not _is_atomic_map(schema):
        result = dict(live)
        for key, value in config.items():
            result[key] = merged(live.get(key), value, _field_schema(schema, key))
        return result
    if isinstance(config, list) and isinstance(live, list) and _is_keyed(schema):
        result_items = dict(_elements(live, schema))
        for element, value in _elements(config, schema):
            result_items[element] = merged(result_items.get(element), value, schema.get("items", {}))
        return list(result_items.values())
    return config


def without(value: Any, doomed: set[Path], schema: Schema, path: Path = ()) -> Any:
    """Return a value without the doomed fields below `path`."""
    if isinstance(value, dict) and not _is_atomic_map(schema):
        result = {}
        for key, inner in value.items():
            below = (*path, f"f:{key}")
            if below not in doomed:
                result[key] = without(inner, doomed, _field_schema(schema, key), below)
        return result
    if isinstance(value, list) and _is_keyed(schema):
        return [
            without(inner, doomed, schema.get("items", {}), (*path, element))
            for element, inner in _elements(value, schema)
            if (*path, element) not in doomed
        ]
    return value


def with_parents(paths: Iterable[Path]) -> set[Path]:
    """Return the paths and all that lead to them: who owns a field keeps the maps alive that hold it."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)}


def decode(tree: dict[str, Any]) -> Fields:
    """Read a fieldsV1."""
    found: set[Path] = set()

    def descend(node: dict[str, Any], path: Path) -> None:
        if path and (not node or "." in node):
            found.add(path)
        for element, below in node.items():
            if element != ".":
                descend(below, (*path, element))

    descend(tree, ())
    return frozenset(found)


def encode(paths: Fields) -> dict[str, Any]:
    """Write a fieldsV1; a field that also has others below it holds a dot."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in paths:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return tree


def shown(path: Path) -> str:
    """Write a path as messages do: .spec.list[type="a"].x."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]"
    return text


def _is_atomic_map(schema: Schema) -> bool:
    return schema.get("x-kubernetes-map-type") == "atomic"


def _is_keyed(schema: Schema) -> bool:
    return schema.get("x-kubernetes-list-type") in {"map", "set"}


def _field_schema(schema: Schema, key: str) -> Schema:
    known = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return known if isinstance(known, dict) else {}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _elements(value: list[Any], schema: Schema) -> list[tuple[str, Any]]:
    """Return each item of a keyed list with its path element."""
    if schema["x-kubernetes-list-type"] == "set":
        return [("v:" + _json(item), item) for item in value]
    keys = sorted(schema.get("x-kubernetes-list-map-keys", ()))
    properties = schema.get("items", {}).get("properties", {})
    found = []
    for item in value:
        named = {key: item.get(key, properties.get(key, {}).get("default")) for key in keys}
        found.append(("k:" + _json(named), item))
    return found
