"""Reads YAML that an operator or a node wrote, within bounds of size and time.

Aliases are refused: a few lines of them expand to gigabytes, and neither Talos nor talosctl writes any. So what
comes out is a plain tree that is never larger than its text.
"""

from __future__ import annotations

from typing import Any

import yaml

BYTES_MAX = 1024 * 1024
"""As much as a Kubernetes Secret holds."""
DEPTH_MAX = 100


class UnreadableYamlError(ValueError):
    """The text says where and why, and never quotes the content."""


def load_documents(data: bytes) -> list[Any]:
    """Return every document that is not empty."""
    if len(data) > BYTES_MAX:
        raise UnreadableYamlError(f"has {len(data)} bytes, and at most {BYTES_MAX} are read")
    try:
        return list(_load(data))
    except yaml.MarkedYAMLError as error:
        raise UnreadableYamlError(f"is not YAML{_place(error)}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, UnreadableYamlError):
            raise
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


def _load(data: bytes) -> Any:
    loader = yaml.CSafeLoader(data)
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            _check(node)
            document = loader.construct_document(node)
            if document is not None:
                yield document
    finally:
        loader.dispose()


def _check(root: Any) -> None:
    """Refuse aliases, which show as one node in two places, and nesting that no configuration has."""
    seen: set[int] = set()
    waiting: list[tuple[Any, int]] = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        line = node.start_mark.line + 1
        if id(node) in seen:
            raise UnreadableYamlError(f"uses a YAML alias in line {line}: write the value out")
        if depth > DEPTH_MAX:
            raise UnreadableYamlError(f"is nested more than {DEPTH_MAX} deep in line {line}")
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(item, depth + 1) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            waiting += [(part, depth + 1) for pair in node.value for part in pair]


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
