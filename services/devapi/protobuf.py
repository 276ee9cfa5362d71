"""The few objects that kubectl sends as Protocol Buffers: `kubectl create secret|configmap|namespace|...`, `auth`.

Kubernetes wraps them in an envelope that names the kind. Only the fields that those commands set are known; an
object with others is refused rather than stored in part.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from services.devapi import refusal

MEDIA = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_INSTEAD = ("application/json", "application/yaml")

Shape = dict[int, tuple[str, Any]]
"""Fields by number: name, and `str`, `bytes`, `bool`, a shape, or a list or dict of one of those."""

_META: Shape = {
    1: ("name", str), 2: ("generateName", str), 3: ("namespace", str), 4: ("selfLink", str), 5: ("uid", str),
    6: ("resourceVersion", str), 7: ("generation", int), 8: ("", None), 11: ("labels", {"": str}),
    12: ("annotations", {"": str}),
}  # fmt: skip
_RESOURCE: Shape = {
    number: (name, str)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), start=1)
}
_PATH: Shape = {1: ("path", str), 2: ("verb", str)}
_ACCESS: Shape = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", _PATH)}
_PLAIN: Shape = {1: ("metadata", _META)}
_KINDS: dict[tuple[str, str], Shape] = {
    ("v1", "Secret"): _PLAIN | {2: ("data", {"": bytes}), 3: ("type", str), 4: ("stringData", {"": str})},
    ("v1", "ConfigMap"): _PLAIN | {2: ("data", {"": str}), 3: ("binaryData", {"": bytes})},
    ("v1", "Namespace"): _PLAIN | {2: ("", None), 3: ("", None)},
    ("v1", "ServiceAccount"): _PLAIN,
    ("authentication.k8s.io/v1", "SelfSubjectReview"): _PLAIN | {2: ("", None)},
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): _PLAIN | {2: ("spec", _ACCESS), 3: ("", None)},
}


_ENVELOPE: Shape = {
    1: ("about", {1: ("apiVersion", str), 2: ("kind", str)}),
    2: ("raw", bytes),
    3: ("", None),
    4: ("", None),
}


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a body; refuses kinds and fields that are not known here."""
    if not body.startswith(_MAGIC):
        raise refusal.bad_request("the body does not begin as Kubernetes' Protocol Buffers do")
    try:
        envelope = _message(body[len(_MAGIC) :], _ENVELOPE)
        about: dict[str, Any] = envelope.get("about", {})
        shape = _KINDS.get((about.get("apiVersion", ""), about.get("kind", "")))
        if shape is None:
            raise refusal.unsupported_media(f"{MEDIA} of {about.get('kind')}", _INSTEAD)
        return about | _message(base64.b64decode(envelope.get("raw", "")), shape)
    except (IndexError, UnicodeDecodeError, RecursionError) as error:
        raise refusal.bad_request("the body is cut short or broken") from error


def _message(data: bytes, shape: Shape) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        if number not in shape:
            raise refusal.unsupported_media(f"{MEDIA} with field {number}", _INSTEAD)
        name, kind = shape[number]
        if kind is None:
            continue
        if isinstance(kind, dict) and "" in kind:
            pair = _message(_bytes(value), {1: ("key", str), 2: ("value", kind[""])})
            result.setdefault(name, {})[pair.get("key", "")] = pair.get("value", "")
        elif (found := _value(value, kind)) not in ("", {}, 0):
            result[name] = found
    return result


def _value(value: bytes | int, kind: Any) -> Any:
    if kind is int:
        return value
    if kind is str:
        return _bytes(value).decode()
    if kind is bytes:
        return base64.b64encode(_bytes(value)).decode()
    return _message(_bytes(value), kind)


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise IndexError("a number where bytes are due")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        if key & 7 == 0:
            number, place = _varint(data, place)
            yield key >> 3, number
        elif key & 7 == 2:
            size, place = _varint(data, place)
            if place + size > len(data):
                raise IndexError("cut short")
            yield key >> 3, data[place : place + size]
            place += size
        else:
            raise IndexError("a wire type that Kubernetes does not use")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise IndexError("a number that does not end")
