"""Reading what the API server sends: whole objects, pages of lists and lines of watches.

Lists and watch lines are read in two steps, envelope first, so that one object of a strange shape costs
that object only.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic

import msgspec

from libs.kube import errors
from libs.kube.objects import Meta, Resource, T

Key = tuple[str, str]
"""Namespace (empty for cluster-wide kinds) and name."""


class Bare(msgspec.Struct, frozen=True):
    """Any object, as far as all are alike."""

    metadata: Meta

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name


class Oddity(msgspec.Struct, frozen=True):
    """An object that could not be read, and where its shape differs."""

    key: Key
    resource_version: str
    why: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T]
    oddities: list[Oddity]
    resource_version: str
    continuation: str


class Line(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object still encoded."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continuation: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_BARE = msgspec.json.Decoder(Bare)
_LIST = msgspec.json.Decoder(_List)
_LINE = msgspec.json.Decoder(Line)
_STATUS = msgspec.json.Decoder(errors.Status)


@cache
def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def whole(resource: Resource[T], action: str, data: bytes) -> T:
    """Read one object; raises `Undecodable`, or `Unavailable` when it is no JSON at all (a proxy's page)."""
    try:
        item: T = _decoder(resource.type).decode(data)
    except msgspec.ValidationError as error:
        raise errors.Undecodable(f"{action}: read, but {error}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.Unavailable(f"{action}: the answer is no JSON: {error}") from error
    return item


def page(resource: Resource[T], action: str, data: bytes) -> Page[T]:
    """Read a page of a list; raises `Unavailable` when it is none."""
    try:
        listing = _LIST.decode(data)
        items: list[T] = []
        oddities: list[Oddity] = []
        for raw in listing.items or ():
            item = one(resource, raw)
            if isinstance(item, Oddity):
                oddities.append(item)
            else:
                items.append(item)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.Unavailable(f"{action}: the answer is not a list of objects: {error}") from error
    return Page(items, oddities, listing.metadata.resource_version, listing.metadata.continuation)


def line(action: str, data: bytes) -> Line:
    """Read the envelope of a watch line; raises `Unavailable` when it is none."""
    try:
        return _LINE.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.Unavailable(f"{action}: the server sent something that is no watch event: {error}") from error


def one(resource: Resource[T], raw: msgspec.Raw) -> T | Oddity:
    """Read one object of a list or watch; raises msgspec's error when it has not even metadata."""
    try:
        item: T = _decoder(resource.type).decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        bare = _BARE.decode(raw)
        return Oddity(bare.key, bare.metadata.resource_version, str(error))
    return item


def bare(action: str, raw: msgspec.Raw) -> Bare:
    """Read the metadata of any object, such as a bookmark."""
    try:
        return _BARE.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.Unavailable(f"{action}: the server sent an object without metadata: {error}") from error


def status(data: bytes | msgspec.Raw) -> errors.Status:
    """Read a failure's description as far as there is one; other bodies (a proxy's page) give an empty one."""
    try:
        return _STATUS.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return errors.Status()
