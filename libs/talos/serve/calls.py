"""What every call begins with: who calls, and which node is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc

from libs.talos.serve.api import Code, NodeApi, Peer, Refusal

Context = grpc.aio.ServicerContext[Any, Any]

_CODES = {code: grpc.StatusCode[code.name] for code in Code}


class Peers:
    """The connections that were handed to gRPC, by the path that our end of each is bound to."""

    def __init__(self) -> None:
        self._by_path: dict[str, Peer] = {}

    @contextmanager
    def as_path(self, path: Path, peer: Peer) -> Iterator[Path]:
        """Know a connection by this path until the block ends, which also removes the path."""
        self._by_path[str(path)] = peer
        try:
            yield path
        finally:
            del self._by_path[str(path)]
            path.unlink(missing_ok=True)

    def of(self, context: Context) -> Peer:
        """Return who calls; nobody but us can reach the socket, so there is always one."""
        peer = self._by_path.get(unquote(context.peer()).removeprefix("unix:"))
        if peer is None:
            raise Refusal(Code.UNAVAILABLE, "the connection has gone")
        return peer


async def abort(context: Context, refusal: Refusal) -> NoReturn:
    """End the call with the refusal's code."""
    await context.abort(_CODES[refusal.code], refusal.message)
    raise AssertionError("abort raises")


def wanted(context: Context, name: str) -> list[str]:
    """Return the values of one header of the request."""
    return [str(value) for key, value in context.invocation_metadata() or () if key == name]


def targets(node: NodeApi, context: Context) -> Sequence[str] | None:
    """Return what the `nodes` header names, None for a call that is not fanned out."""
    if node.in_maintenance or wanted(context, "proxyfrom"):
        return None
    return wanted(context, "nodes") or None


def meant(node: NodeApi, context: Context) -> NodeApi:
    """Return the one node that a call is for: ourselves, or whom the `node` header names."""
    if node.in_maintenance or wanted(context, "proxyfrom"):
        return node
    names = wanted(context, "node")
    if not names:
        return node
    if len(names) != 1:
        raise Refusal(Code.INVALID_ARGUMENT, "exactly one value is wanted for the header `node`")
    return resolve(node, names[0])


def resolve(node: NodeApi, target: str) -> NodeApi:
    """Return the node that a target names, as seen from the one that was dialled."""
    if not node.forwards:
        if node.is_me(target):
            return node
        raise Refusal(Code.PERMISSION_DENIED, "no request forwarding")
    found = node if node.is_me(target) else node.neighbour(target)
    if found is None:
        raise Refusal(Code.UNAVAILABLE, f"error dialing {target}: nothing answers there")
    return found
