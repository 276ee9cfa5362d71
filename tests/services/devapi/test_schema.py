"""Structural schemas: pruning, defaults, and faults beyond those that a TalosMachine can have."""

from __future__ import annotations

from typing import Any

import pytest

from services.devapi import schema

INTEGER = {"type": "integer"}


def test_unknown_fields_go_at_every_depth_and_are_named() -> None:
    known = {"properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}}, "free": {"x-kubernetes-preserve-unknown-fields": True}, "map": {"additionalProperties": {"properties": {"c": {}}}}}}  # fmt: skip
    item = {"kind": "K", "metadata": {"any": 1}, "a": [{"b": 1, "x": 2}], "free": {"y": 1}, "map": {"k": {"c": 1, "z": 2}}, "top": 1}  # fmt: skip
    kept, dropped = schema.pruned(item, known)
    assert kept == {"kind": "K", "metadata": {"any": 1}, "a": [{"b": 1}], "free": {"y": 1}, "map": {"k": {"c": 1}}}
    assert dropped == ["a[0].x", "map.k.z", "top"]


def test_defaults_fill_what_is_missing_and_nulls_that_may_not_be() -> None:
    known = {"properties": {
        "a": {"default": 1}, "b": {"default": {"c": 2}, "properties": {"c": {}, "d": {"default": 3}}},
        "n": {"nullable": True, "default": 4}, "list": {"items": {"properties": {"e": {"default": 5}}}}, "plain": {},
    }}  # fmt: skip
    assert schema.defaulted({"a": None, "n": None, "list": [{}], "plain": None}, known) == {
        "a": 1, "b": {"c": 2, "d": 3}, "n": None, "list": [{"e": 5}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("known", "value", "reason"),
    [
        (INTEGER, 1, None),
        (INTEGER, 1.0, None),
        (INTEGER, 1.5, "FieldValueTypeInvalid"),
        (INTEGER, True, "FieldValueTypeInvalid"),
        (INTEGER, None, "FieldValueTypeInvalid"),
        ({**INTEGER, "nullable": True}, None, None),
        ({**INTEGER, "minimum": 2}, 1, "FieldValueInvalid"),
        ({**INTEGER, "minimum": 1, "exclusiveMinimum": True}, 1, "FieldValueInvalid"),
        ({**INTEGER, "maximum": 1}, 2, "FieldValueInvalid"),
        ({"type": "number"}, 1, None),
        ({"type": "object"}, [], "FieldValueTypeInvalid"),
        ({"type": "array", "minItems": 1}, [], "FieldValueInvalid"),
        ({"type": "array", "x-kubernetes-list-type": "set"}, [1, 1], "FieldValueDuplicate"),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "FieldValueTooMany"),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": "x"}, "FieldValueTypeInvalid"),
        ({"x-kubernetes-int-or-string": True}, "1", None),
        ({"x-kubernetes-int-or-string": True}, 1, None),
        ({"x-kubernetes-int-or-string": True}, 1.5, "FieldValueTypeInvalid"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00.000001+01:00", None),
        ({"type": "string", "format": "date-time"}, "2026-13-01T00:00:00Z", "FieldValueInvalid"),
        ({"anyOf": [{"type": "string"}, INTEGER]}, 1, None),
        ({"anyOf": [{"type": "string"}, INTEGER]}, [], "FieldValueInvalid"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "FieldValueInvalid"),
        ({"allOf": [{"minimum": 1}]}, 0, "FieldValueInvalid"),
        ({"not": {"minimum": 1}}, 1, "FieldValueInvalid"),
        ({}, object, None),
    ],
)
def test_faults(known: dict[str, Any], value: Any, reason: str | None) -> None:
    found = [cause.reason for cause in schema.faults(value, known, "x")]
    assert found == ([reason] if reason else [])


def test_what_was_wrong_before_may_stay() -> None:
    known = {"properties": {"spec": INTEGER, "status": INTEGER}}
    old = {"spec": "old and wrong", "status": 1}
    assert schema.new_faults({"spec": "old and wrong", "status": 2}, old, known) == []
    assert [c.field for c in schema.new_faults({"spec": "new and wrong", "status": "x"}, old, known)] == [
        "spec",
        "status",
    ]
