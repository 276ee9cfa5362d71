"""Label and field selectors, as a query spells them and as objects hold them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from services.devapi import refusal

Matches = Callable[[dict[str, Any]], bool]

_SET = re.compile(r"^([\w./-]+)\s+(in|notin)\s+\(([^()]*)\)$")
_EXISTS = re.compile(r"^(!?)\s*([\w./-]+)$")
_EQUALS = re.compile(r"^([\w./-]+)\s*(==|!=|=)\s*([\w./-]*)$")
_FIELD = re.compile(r"^([\w.]+)\s*(==|!=|=)\s*(.*)$")

# Custom resources select by name and namespace only, as on a real server; some built-in kinds know more.
_FIELDS = {
    "events": {"involvedObject.name", "involvedObject.namespace", "involvedObject.kind", "involvedObject.uid",
               "reason", "type", "reportingComponent"},
    "secrets": {"type"},
    "namespaces": {"status.phase"},
    "nodes": {"spec.unschedulable"},
}  # fmt: skip


def everything(_: dict[str, Any]) -> bool:
    return True


def parse(labels: str, fields: str, plural: str) -> Matches:
    """Return what tells whether an object is selected; refuses selectors that it cannot read."""
    tests = [*_label_tests(labels), *_field_tests(fields, plural)]
    if not tests:
        return everything
    return lambda item: all(test(item) for test in tests)


def _label_tests(text: str) -> list[Matches]:
    # Commas inside parentheses belong to a set of values.
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    return [_label_test(part) for part in parts]


def _label_test(part: str) -> Matches:
    if found := _SET.match(part):
        key, operator, values = found.groups()
        wanted = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda item: _labels(item).get(key) in wanted
        return lambda item: _labels(item).get(key) not in wanted
    if found := _EQUALS.match(part):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda item: _labels(item).get(key) != value
        return lambda item: _labels(item).get(key) == value
    if found := _EXISTS.match(part):
        absent, key = found.groups()
        return (lambda item: key not in _labels(item)) if absent else (lambda item: key in _labels(item))
    raise refusal.bad_request(f"unable to parse requirement: {part!r} is not a label selector")


def _labels(item: dict[str, Any]) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def _field_tests(text: str, plural: str) -> list[Matches]:
    tests: list[Matches] = []
    for part in text.split(",") if text else []:
        found = _FIELD.match(part.strip())
        if found is None:
            raise refusal.bad_request(f"invalid selector: {part!r}; can't understand {part!r}")
        name, operator, value = found.groups()
        if name not in {"metadata.name", "metadata.namespace"} and name not in _FIELDS.get(plural, set()):
            raise refusal.bad_request(f"field label not supported: {name}")
        tests.append(_field_test(name.split("."), value, equal=operator != "!="))
    return tests


def _field_test(path: list[str], value: str, *, equal: bool) -> Matches:
    def test(item: dict[str, Any]) -> bool:
        found: Any = item
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        shown = "" if found is None else str(found).lower() if isinstance(found, bool) else str(found)
        return (shown == value) == equal

    return test


def matches_selector(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Tell whether labels fit a LabelSelector object; an empty or missing one fits everything."""
    if not selector:
        return True
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fits(expression, labels) for expression in selector.get("matchExpressions") or [])


def _fits(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
