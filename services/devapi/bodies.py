"""Request bodies: JSON, or YAML where Kubernetes takes it; bounded, and never with YAML's own dates."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from services.devapi import refusal

BODY_BYTES_MAX = 3 * 1024 * 1024


class _Loader(yaml.SafeLoader):
    """Reads YAML as Kubernetes does: what looks like a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(text: str) -> list[Any]:
    """Return the documents of a YAML text; `yaml.YAMLError` when it is none."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


def decode(body: bytes) -> Any:
    """Return a body's value; YAML is looked for only where JSON fails."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        if body.lstrip()[:1] in {b"{", b"["}:
            raise refusal.bad_request(f"the body cannot be decoded: {error}") from error
    try:
        found = documents(body.decode())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise refusal.bad_request("the body is neither JSON nor YAML") from error
    if len(found) != 1:
        raise refusal.bad_request(f"the body must be one object, and this is {len(found)}")
    return found[0]
