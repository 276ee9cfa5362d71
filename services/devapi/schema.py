"""Structural schemas at work: unknown fields pruned, defaults filled in, values validated.

Follows apiextensions.k8s.io/v1. Left out: `x-kubernetes-embedded-resource` and formats other than date-time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from services.devapi.refusal import Cause

Schema = dict[str, Any]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_DATE_TIME = re.compile(r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:?\d\d)$")
_ROOT_FIELDS = ("apiVersion", "kind", "metadata")


def pruned(item: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Return a whole object without the fields that its schema does not know, and their paths."""
    dropped: list[str] = []
    inner = {key: value for key, value in item.items() if key not in _ROOT_FIELDS}
    kept = _pruned(inner, schema, "", dropped)
    return {key: item[key] for key in _ROOT_FIELDS if key in item} | kept, dropped


def _pruned(value: Any, schema: Schema, path: str, dropped: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_pruned(item, items, f"{path}[{place}]", dropped) for place, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties")
    result = {}
    for key, inner in value.items():
        where = f"{path}.{key}" if path else key
        if key in properties:
            result[key] = _pruned(inner, properties[key], where, dropped)
        elif isinstance(additional, dict):
            result[key] = _pruned(inner, additional, where, dropped)
        elif schema.get(_PRESERVE) or additional is True:
            result[key] = inner
        else:
            dropped.append(where)
    return result


def defaulted(value: Any, schema: Schema) -> Any:
    """Return the value with defaults for missing fields; a null where none is allowed counts as missing."""
    if isinstance(value, list):
        items = schema.get("items")
        return [defaulted(item, items) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    result = {}
    for key, inner in value.items():
        known = properties[key] if key in properties else _additional(schema)
        if inner is None and key in properties and not properties[key].get("nullable"):
            continue
        result[key] = defaulted(inner, known) if known else inner
    for key, known in properties.items():
        if key not in result and "default" in known:
            result[key] = defaulted(known["default"], known)
    return result


def _additional(schema: Schema) -> Schema | None:
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, dict) else None


def faults(value: Any, schema: Schema, path: str = "") -> list[Cause]:
    """Return everything that is wrong with a value, each with the path of its field."""
    return list(_faults(value, schema, path))


def new_faults(item: dict[str, Any], old: dict[str, Any], schema: Schema) -> list[Cause]:
    """Return what is wrong with the changed top-level parts of an object; what was wrong before may stay."""
    same = {key for key, value in item.items() if value is old.get(key) or value == old.get(key)}
    properties = {key: inner for key, inner in schema.get("properties", {}).items() if key not in same}
    return faults(item, {**schema, "properties": properties})


def _faults(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    wrong_type = _type_fault(value, schema, path)
    if wrong_type is not None:
        yield wrong_type
        return
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(json.dumps(choice) for choice in schema["enum"])
        message = f"Unsupported value: {json.dumps(value)}: supported values: {known}"
        yield Cause(field=path, reason="FieldValueNotSupported", message=message)
    if isinstance(value, str):
        yield from _string_faults(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_faults(value, schema, path)
    elif isinstance(value, list):
        yield from _list_faults(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(value, schema, path)
    yield from _combined_faults(value, schema, path)


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "integer,string": (int, str),
}


def _type_fault(value: Any, schema: Schema, path: str) -> Cause | None:
    wanted = "integer,string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    types = _TYPES.get(wanted, (object,))
    fits = isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)
    if not fits and wanted == "integer" and isinstance(value, float):
        fits = value.is_integer()
    if fits:
        return None
    seen = _type_name(value)
    message = f'Invalid value: "{seen}": {path} in body must be of type {wanted}: "{seen}"'
    return Cause(field=path, reason="FieldValueTypeInvalid", message=message)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return next(name for name, types in _TYPES.items() if isinstance(value, types))


def _string_faults(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        message = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield Cause(field=path, reason="FieldValueTooLong", message=message)
    if len(value) < schema.get("minLength", 0):
        yield _invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    pattern = schema.get("pattern")
    if pattern is not None and re.search(pattern, value) is None:
        yield _invalid(path, value, f"{path} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_date_time(value):
        yield _invalid(path, value, f'{path} in body must be of type date-time: "{value}"')


def _is_date_time(value: str) -> bool:
    if _DATE_TIME.match(value) is None:
        return False
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return False
    return True


def _number_faults(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        yield _invalid(path, value, f"{path} in body should be greater than or equal to {low}")
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        yield _invalid(path, value, f"{path} in body should be less than or equal to {high}")


def _object_faults(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    properties = schema.get("properties", {})
    additional = _additional(schema)
    for key in schema.get("required", ()):
        if key not in value:
            yield Cause(field=_join(path, key), reason="FieldValueRequired", message="Required value")
    if len(value) > schema.get("maxProperties", len(value)):
        message = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        yield Cause(field=path, reason="FieldValueTooMany", message=message)
    for key, inner in value.items():
        known = properties.get(key) or additional
        if known is not None:
            yield from _faults(inner, known, _join(path, key))


def _list_faults(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxItems", len(value)):
        message = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        yield Cause(field=path, reason="FieldValueTooMany", message=message)
    if len(value) < schema.get("minItems", 0):
        yield _invalid(path, value, f"{path} in body should have at least {schema['minItems']} items")
    items = schema.get("items", {})
    for place, item in enumerate(value):
        yield from _faults(item, items, f"{path}[{place}]")
    yield from _duplicates(value, schema, path)


def _duplicates(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen = set()
    for place, item in enumerate(value if kind in {"map", "set"} else ()):
        shown = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
        identity = json.dumps(shown, sort_keys=True)
        if identity in seen:
            message = f"Duplicate value: {identity}"
            yield Cause(field=f"{path}[{place}]", reason="FieldValueDuplicate", message=message)
        seen.add(identity)


def _combined_faults(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for inner in schema.get("allOf", ()):
        yield from _faults(value, inner, path)
    if "anyOf" in schema and all(faults(value, inner, path) for inner in schema["anyOf"]):
        yield _invalid(path, value, f"{path} in body must validate at least one schema (anyOf)")
    if "oneOf" in schema and sum(not faults(value, inner, path) for inner in schema["oneOf"]) != 1:
        yield _invalid(path, value, f"{path} in body must validate one and only one schema (oneOf)")
    if "not" in schema and not faults(value, schema["not"], path):
        yield _invalid(path, value, f"{path} in body must not validate the schema (not)")


def _invalid(path: str, value: Any, message: str) -> Cause:
    return Cause(field=path, reason="FieldValueInvalid", message=f"Invalid value: {json.dumps(value)}: {message}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
