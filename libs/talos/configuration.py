"""Machine configurations as text: whether one may be sent, and whether two say the same."""

from __future__ import annotations

import hashlib
from typing import Any

from libs.talos import documents
from libs.talos.errors import InvalidConfiguration


def check_configuration(data: bytes) -> None:
    """Raise `InvalidConfiguration` unless this is YAML with exactly one v1alpha1 document that has a machine.

    The node has the last word about everything else. A configuration as long as a Secret takes a good part of a
    second: callers keep the answer by `configuration_hash`.
    """
    found = _documents(data)
    for number, document in enumerate(found, start=1):
        if not isinstance(document, dict):
            raise InvalidConfiguration(f"document {number} of the machine configuration is not a mapping")
        if "apiVersion" not in document and "version" not in document:
            raise InvalidConfiguration(
                f"document {number} of the machine configuration has neither `version` nor `apiVersion`"
            )
    complete = [document for document in found if "apiVersion" not in document]
    if len(complete) != 1:
        raise InvalidConfiguration(
            f"the machine configuration has {len(complete)} documents with `version: v1alpha1`, and needs exactly one"
        )
    if complete[0]["version"] != "v1alpha1":
        raise InvalidConfiguration("the machine configuration's `version` is not v1alpha1")
    if not isinstance(complete[0].get("machine"), dict):
        raise InvalidConfiguration("the machine configuration has no `machine` mapping")


def configuration_hash(data: bytes) -> str:
    """Return the SHA-256 of the bytes in hex."""
    return hashlib.sha256(data).hexdigest()


def same_configuration(one: bytes, other: bytes) -> bool:
    """Compare by meaning: comments, order of keys and of documents do not matter.

    What cannot be read within bounds equals only the very same bytes.
    """
    if one == other:
        return True
    try:
        first, second = _by_name(_documents(one)), _by_name(_documents(other))
    except InvalidConfiguration:
        return False
    return documents.equal(first, second)


def _documents(data: bytes) -> list[Any]:
    try:
        found = documents.load_documents(data)
    except documents.UnreadableYamlError as error:
        raise InvalidConfiguration(f"the machine configuration {error}") from None
    if not found:
        raise InvalidConfiguration("the machine configuration is empty")
    return found


def _word(document: dict[Any, Any], key: str) -> str:
    word = document.get(key, "")
    if not isinstance(word, str):
        raise InvalidConfiguration(f"{key} of a document of the machine configuration is not text")
    return word


def _by_name(found: list[Any]) -> dict[tuple[str, str, str], Any]:
    named: dict[tuple[str, str, str], Any] = {}
    for document in found:
        if not isinstance(document, dict):
            raise InvalidConfiguration("a document of the machine configuration is not a mapping")
        name = (_word(document, "apiVersion"), _word(document, "kind"), _word(document, "name"))
        if name in named:
            raise InvalidConfiguration("the machine configuration has one document twice")
        named[name] = document
    return named
