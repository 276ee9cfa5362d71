"""Reads YAML that an operator or a node wrote, within bounds of size and time.

Aliases are refused: a few lines of them expand to gigabytes, and neither Talos nor talosctl writes any. So what
comes out is a plain tree that is never larger than its text.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

BYTES_MAX = 1024 * 1024
"""As much as a Kubernetes Secret holds."""
DEPTH_MAX = 100
EVENTS_MAX = 50_000
"""Keys and values, about: a full machine configuration has a thousand."""
_LONG_NUMBER = re.compile(r"[-+]?[0-9:_.]{65,}")


class UnreadableYamlError(ValueError):
    """The text says where and why, and never quotes the content."""


def load_documents(data: bytes) -> list[Any]:
    """Return every document that is not empty."""
    if len(data) > BYTES_MAX:
        raise UnreadableYamlError(f"has {len(data)} bytes, and at most {BYTES_MAX} are read")
    try:
        _check(data)
        return [document for document in yaml.load_all(data, Loader=yaml.CSafeLoader) if document is not None]
    except yaml.MarkedYAMLError as error:
        raise UnreadableYamlError(f"is not YAML{_place(error)}") from None
    except UnreadableYamlError:
        raise
    except Exception:  # noqa: BLE001 - what an explicit tag does not fit raises anything, and quotes the value
        raise UnreadableYamlError("is not YAML") from None


def equal(one: Any, other: Any) -> bool:
    """Compare two trees by type and value: unlike Python's `==`, 1 is neither true nor 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _check(data: bytes) -> None:
    """Look at the events one by one, before anything grows out of them."""
    depth = 0
    for number, event in enumerate(yaml.parse(data, Loader=yaml.CSafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        mark = event.start_mark
        line = mark.line + 1 if mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableYamlError(f"uses a YAML alias in line {line}: write the value out")
        if depth > DEPTH_MAX:
            raise UnreadableYamlError(f"is nested more than {DEPTH_MAX} deep in line {line}")
        if number > EVENTS_MAX:
            raise UnreadableYamlError(f"has more keys and values than are read, from line {line} on")
        if isinstance(event, yaml.ScalarEvent) and _is_long_number(event):
            raise UnreadableYamlError(f"has a number in line {line} that is too long")


def _is_long_number(event: Any) -> bool:
    """YAML counts in sixties too, and such a number of a million digits takes minutes to read."""
    read_as_number = event.implicit[0] or event.tag
    return bool(read_as_number and _LONG_NUMBER.fullmatch(event.value))


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
