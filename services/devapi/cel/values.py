"""CEL's values in Python: JSON values as they are, timestamps, and optional values; equality as CEL has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class CelError(Exception):
    """An expression cannot be read or evaluated; the text says why."""


@dataclass(frozen=True)
class Optional:
    """A value that may be missing. CEL's null is a value, not a missing one."""

    present: bool = False
    value: Any = None

    @property
    def held(self) -> Any:
        """The value; an error when there is none."""
        if not self.present:
            raise CelError("optional.none() dereference")
        return self.value


NONE = Optional()


def some(value: Any) -> Optional:
    return Optional(present=True, value=value)


def equal(one: Any, other: Any) -> bool:
    """Compare as CEL does: numbers by value, booleans never with numbers, lists and maps item by item."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.present == other.present and equal(one.value, other.value)
    return bool(one == other)


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{type_name(value)} where bool is needed")
    return value


_NAMES = {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map", type(None): "null"}


def type_name(value: Any) -> str:
    """Name a value's type as CEL does."""
    return _NAMES.get(type(value), type(value).__name__.lower())
