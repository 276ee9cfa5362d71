"""The verbs: live reads and the few kinds of write that nodetrail does, with typed results and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic

import msgspec

from libs.kube import decode, errors, transport
from libs.kube.objects import SECRETS, Resource, T
from libs.kube.told import Told

REQUEST_SECONDS = 15.0
LIST_SECONDS = 60.0
"""For one page: a server that has just started may take long for its first list."""
PAGE_ITEMS = 500
PAGES_MAX = 4000

APPLY = "application/apply-patch+yaml"
"""JSON is YAML, so the body of an apply is JSON all the same."""
MERGE = "application/merge-patch+json"


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A whole collection as of one resourceVersion."""

    items: list[T]
    resource_version: str
    oddities: list[decode.Oddity] = []
    """Objects that are there but could not be read."""


class Api:
    """One API server, as one account. Made by `connect`; safe to use from many tasks at once."""

    def __init__(self, through: transport.Transport, agent: str) -> None:
        self._transport = through
        self.agent = agent
        self.told = Told()
        """What `tell` has said lately."""

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._transport.host

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object live: never older than any write that has been answered."""
        request = _request("get", resource, namespace, name)
        return await self._whole(resource, request)

    async def list(self, resource: Resource[T], namespace: str = "") -> Listing[T]:
        """Read a whole collection live, page by page; no namespace means all of them."""
        items: list[T] = []
        oddities: list[decode.Oddity] = []
        query = {"limit": str(PAGE_ITEMS)}
        for _ in range(PAGES_MAX):
            request = _request("list", resource, namespace, query=query)
            data = await self._transport.fetch(request, timeout_seconds=LIST_SECONDS)
            page = decode.page(resource, request.action, data)
            items += page.items
            oddities += page.oddities
            if not page.continuation:
                return Listing(items, page.resource_version, oddities)
            query = {"limit": str(PAGE_ITEMS), "continue": page.continuation}
        raise errors.Unavailable(f"list {resource.plural}: no end after {PAGES_MAX} pages")

    async def create(self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "") -> T:
        """Create an object; `AlreadyExists` when another of that name was first."""
        name = str(body.get("metadata", {}).get("name", ""))
        request = _request("create", resource, namespace, name, body=_with_kind(resource, body))
        return await self._whole(resource, request)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
        resource_version: str = "",
    ) -> T:
        """Server-side apply, forced: afterwards `manager` owns exactly the fields in `body`.

        With a `resource_version` the write happens only to the object as it was read; else `Conflict`.
        """
        metadata = {**body.get("metadata", {}), "name": name}
        if namespace:
            metadata["namespace"] = namespace
        if resource_version:
            metadata["resourceVersion"] = resource_version
        request = _request(
            "patch",
            resource,
            namespace,
            name,
            subresource=subresource,
            query={"fieldManager": manager, "force": "true"},
            body=_with_kind(resource, {**body, "metadata": metadata}),
            content_type=APPLY,
        )
        return await self._whole(resource, request)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
    ) -> T:
        """Change just these fields; null removes one. `metadata.resourceVersion` in the body makes it conditional."""
        request = _request(
            "patch",
            resource,
            namespace,
            name,
            subresource=subresource,
            query={"fieldManager": manager},
            body=body,
            content_type=MERGE,
        )
        return await self._whole(resource, request)

    async def delete(self, resource: Resource[T], name: str, namespace: str = "") -> None:
        """Delete an object; `NotFound` when it was gone already."""
        request = _request("delete", resource, namespace, name)
        await self._transport.fetch(request, timeout_seconds=REQUEST_SECONDS)

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: float,
        idle_seconds: float,
    ) -> AbstractAsyncContextManager[transport.Lines]:
        """Open a watch from that version on. The server ends it after `seconds`, we after `idle_seconds` of silence."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        request = _request("watch", resource, namespace, query=query)
        return self._transport.lines(request, total_seconds=seconds + idle_seconds, idle_seconds=idle_seconds)

    async def _whole(self, resource: Resource[T], request: transport.Request) -> T:
        data = await self._transport.fetch(request, timeout_seconds=REQUEST_SECONDS)
        return decode.whole(resource, request.action, data)


@asynccontextmanager
async def connect(kubeconfig: str | None = None, *, agent: str) -> AsyncIterator[Api]:
    """Open the way to an API server. It need not be up yet; only unusable credentials raise (`KubeconfigError`).

    Without a kubeconfig: KUBECONFIG, ~/.kube/config, the pod's service account, in that order.
    """
    async with transport.connect(kubeconfig, agent) as through:
        yield Api(through, agent)


_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}


def _request(
    verb: str,
    resource: Resource[Any],
    namespace: str,
    name: str = "",
    *,
    subresource: str = "",
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
    content_type: str = "application/json",
) -> transport.Request:
    kind = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = "/".join(part for part in (namespace, name) if part)
    path = resource.path(namespace, "" if verb == "create" else name, subresource)
    return transport.Request(
        method=_METHODS.get(verb, "GET"),
        path=path,
        action=f"{verb} {kind} {where}".rstrip(),
        query=query or {},
        body=None if body is None else msgspec.json.encode(body),
        content_type=content_type,
        secret=resource.plural == SECRETS.plural,
    )


def _with_kind(resource: Resource[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
