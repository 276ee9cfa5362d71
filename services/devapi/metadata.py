"""Object metadata: what names and labels may look like, what the server sets, what a writer may change."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from services.devapi.kinds import Kind
from services.devapi.refusal import Cause

Item = dict[str, Any]

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_NAME_MAX = 253
_GENERATED_MAX = 63

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_RULES = {
    "label": (
        re.compile(rf"^{_LABEL}$"),
        63,
        (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character (e.g. 'my-name', or '123-abc')"
        ),
    ),
    "subdomain": (
        re.compile(rf"^{_LABEL}(\.{_LABEL})*$"),
        _NAME_MAX,
        (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com')"
        ),
    ),
    "segment": (re.compile(r"^(?!\.\.?$)[^/%]+$"), _NAME_MAX, "may not be '.' or '..' or contain '/' or '%'"),
}
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LABEL_KEY = re.compile(rf"^({_LABEL}(\.{_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$")

_WRITABLE = ("labels", "annotations", "finalizers", "ownerReferences")


def now() -> str:
    """Return the time as metadata has it: whole seconds, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def for_new(kind: Kind, body: Item, *, namespace: str, time: str) -> Item:
    """Return a new object's metadata: what the writer may set, and what only the server sets."""
    given = body.get("metadata") or {}
    name = given.get("name") or ""
    made: Item = {}
    if not name and given.get("generateName"):
        name = _generated(given["generateName"])
    made["name"] = name
    if given.get("generateName"):
        made["generateName"] = given["generateName"]
    if kind.namespaced:
        made["namespace"] = namespace
    made["uid"] = str(uuid.uuid4())
    if kind.has_generation:
        made["generation"] = 1
    made["creationTimestamp"] = time
    return made | _written(given)


def for_changed(live: Item, body: Item) -> Item:
    """Return the metadata of a changed object: the writer's labels and the like, everything else as it was."""
    kept = {key: value for key, value in live["metadata"].items() if key not in _WRITABLE}
    return kept | _written(body.get("metadata") or {})


def deleting(live: Item, time: str) -> Item:
    """Return an object that is to go once its finalizers are done."""
    metadata = {**live["metadata"], "deletionTimestamp": time, "deletionGracePeriodSeconds": 0}
    if metadata.get("generation"):
        metadata["generation"] += 1
    return {**live, "metadata": metadata}


def _written(given: Item) -> Item:
    return {key: given[key] for key in _WRITABLE if given.get(key)}


def _generated(prefix: str) -> str:
    suffix = "".join(random.choices(_SUFFIX, k=5))  # noqa: S311 - a name, not a secret
    return prefix[: _GENERATED_MAX - 5] + suffix


def faults(kind: Kind, metadata: Item) -> Iterator[Cause]:
    """Yield what is wrong with an object's metadata."""
    name = metadata["name"]
    pattern, longest, rule = _RULES[kind.name_rule]
    if not name:
        message = "Required value: name or generateName is required"
        yield Cause(field="metadata.name", reason="FieldValueRequired", message=message)
    elif pattern.match(name) is None:
        yield _invalid("metadata.name", name, rule)
    elif len(name) > longest:
        yield _invalid("metadata.name", name, f"must be no more than {longest} characters")
    for field in ("labels", "annotations"):
        given = metadata.get(field) or {}
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            yield _invalid(f"metadata.{field}", field, "must be a map of strings")
            continue
        for key, value in given.items():
            yield from _pair_faults(field, key, value)


def _pair_faults(field: str, key: str, value: str) -> Iterator[Cause]:
    if _LABEL_KEY.match(key if field == "labels" else key.lower()) is None:
        yield _invalid(f"metadata.{field}", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
    if field == "labels" and (_LABEL_VALUE.match(value) is None or len(value) > 63):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        )
        yield _invalid("metadata.labels", value, rule)


def _invalid(field: str, value: str, message: str) -> Cause:
    return Cause(field=field, reason="FieldValueInvalid", message=f'Invalid value: "{value}": {message}')
