"""A schema's `x-kubernetes-validations`: compiled once, evaluated over an object and what it was before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from services.devapi.cel.evaluate import Expression, compile_expression
from services.devapi.cel.values import NONE, CelError, some
from services.devapi.refusal import Cause

Schema = dict[str, Any]


class Rule(NamedTuple):
    """One rule of one place in a schema."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str
    field_path: str
    optional_old_self: bool

    @property
    def is_transition(self) -> bool:
        return "oldSelf" in self.expression.names


class Rules(NamedTuple):
    """The rules of a schema and of everything below it."""

    here: tuple[Rule, ...]
    fields: dict[str, Rules]
    items: Rules | None
    """Of a list's items or a map's values."""
    keys: tuple[str, ...]
    """How an item of the list is known from before: by the list's map keys."""


def compile_rules(schema: Schema, path: str = "") -> Rules | None:
    """Compile all rules of a schema; None when it has none. `CelError` names the field of a bad one."""
    here = tuple(_rule(rule, path) for rule in schema.get("x-kubernetes-validations", ()))
    fields = {
        name: rules
        for name, inner in schema.get("properties", {}).items()
        if (rules := compile_rules(inner, f"{path}.{name}" if path else name)) is not None
    }
    below = schema.get("items") or schema.get("additionalProperties")
    items = compile_rules(below, f"{path}[*]") if isinstance(below, dict) else None
    if not here and not fields and items is None:
        return None
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return Rules(here, fields, items, keys)


_VARIABLES = {"self", "oldSelf"}


def _rule(rule: dict[str, Any], path: str) -> Rule:
    try:
        text = rule.get("messageExpression")
        return Rule(
            expression=compile_expression(rule["rule"], _VARIABLES),
            message=rule.get("message") or f"failed rule: {rule['rule']}",
            message_expression=compile_expression(text, _VARIABLES) if text else None,
            reason=rule.get("reason") or "FieldValueInvalid",
            field_path=rule.get("fieldPath", ""),
            optional_old_self=bool(rule.get("optionalOldSelf")),
        )
    except CelError as error:
        raise CelError(f"rule of {path or 'the object'}: {error}") from error


class _Nothing:
    """Stands for a value that was not there before, or cannot be told."""


def broken(rules: Rules, new: Any, old: Any = _Nothing, path: str = "") -> Iterator[Cause]:
    """Yield what rules an object breaks; `old` is what it was, for the rules about changes."""
    for rule in rules.here:
        cause = _broken(rule, new, old, path)
        if cause is not None:
            yield cause
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        for name, value in new.items():
            inner = rules.fields.get(name, rules.items)
            if inner is not None:
                yield from broken(inner, value, before.get(name, _Nothing), f"{path}.{name}" if path else name)
    elif isinstance(new, list) and rules.items is not None:
        for place, item in enumerate(new):
            yield from broken(rules.items, item, _earlier(item, old, rules.keys), f"{path}[{place}]")


def _earlier(item: Any, old: Any, keys: tuple[str, ...]) -> Any:
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _Nothing
    wanted = [item.get(key) for key in keys]
    return next((other for other in old if [other.get(key) for key in keys] == wanted), _Nothing)


def _broken(rule: Rule, new: Any, old: Any, path: str) -> Cause | None:
    variables = {"self": new, "oldSelf": old}
    if rule.optional_old_self:
        variables["oldSelf"] = NONE if old is _Nothing else some(old)
    elif rule.is_transition and old is _Nothing:
        return None
    message = rule.message
    try:
        if rule.expression(variables) is True:
            return None
        if rule.message_expression is not None:
            message = str(rule.message_expression(variables))
    except CelError as error:
        message = f"failed to evaluate {rule.expression.text!r}: {error}"
    shown = json.dumps(new) if not isinstance(new, dict | list) else json.dumps(_kind(new))
    prose = {"FieldValueInvalid": f"Invalid value: {shown}: {message}", "FieldValueForbidden": f"Forbidden: {message}"}
    return Cause(field=path + rule.field_path, reason=rule.reason, message=prose.get(rule.reason, message))


def _kind(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array"
