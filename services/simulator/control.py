"""The switches over HTTP: every answer is a node's state as JSON, every refusal a text that says why.

GET /nodes · GET /nodes/{name} · POST /nodes · DELETE /nodes/{name}
POST /nodes/{name}/{power-on|power-off|power-cycle|move|wipe}   {"addresses": [...]}, optional but for a move
POST /nodes/{name}/trouble, /kubelet                            the fields to change
GET /hostile · POST /hostile {"address", "kind"} · DELETE /hostile/{address}
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.simulator.box import AddressTakenError, Box
from services.simulator.fleet import Fleet, UnknownNodeError
from services.simulator.node import WrongStateError
from services.simulator.spec import FleetError, hostile_from, node_from
from services.simulator.view import NodeState

BODY_BYTES_MAX = 1024 * 1024

Verb = Callable[[Box, dict[str, Any]], Awaitable[NodeState]]


class _Lease(msgspec.Struct, forbid_unknown_fields=True):
    """What the power switches take."""

    addresses: list[str] | None = None


def control(fleet: Fleet, *, folder: Path) -> Starlette:
    """Return the app; relative paths in entries that are added are taken from `folder`."""

    async def nodes(_: Request) -> Response:
        return _json([box.state() for _, box in sorted(fleet.nodes.items())])

    async def node(request: Request) -> Response:
        return _json(fleet[request.path_params["name"]].state())

    async def add(request: Request) -> Response:
        box = await fleet.add(node_from(await _body(request), folder=folder))
        return _json(box.state(), status=201)

    async def remove(request: Request) -> Response:
        state = fleet[request.path_params["name"]].state()
        await fleet.remove(state.name)
        return _json(state)

    async def switch(request: Request) -> Response:
        verb = _VERBS.get(request.path_params["verb"])
        if verb is None:
            raise HTTPException(404, f"no such switch; there are: {', '.join(_VERBS)}")
        return _json(await verb(fleet[request.path_params["name"]], await _body(request)))

    async def hostile(_: Request) -> Response:
        return _json([spec for _, spec in sorted(fleet.hostile.items())])

    async def add_hostile(request: Request) -> Response:
        spec = hostile_from(await _body(request))
        await fleet.add_hostile(spec)
        return _json(spec, status=201)

    async def remove_hostile(request: Request) -> Response:
        await fleet.remove_hostile(request.path_params["address"])
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/nodes", nodes),
            Route("/nodes", add, methods=["POST"]),
            Route("/nodes/{name}", node),
            Route("/nodes/{name}", remove, methods=["DELETE"]),
            Route("/nodes/{name}/{verb}", switch, methods=["POST"]),
            Route("/hostile", hostile),
            Route("/hostile", add_hostile, methods=["POST"]),
            Route("/hostile/{address}", remove_hostile, methods=["DELETE"]),
        ],
        exception_handlers={
            UnknownNodeError: _refusal(404),
            AddressTakenError: _refusal(409),
            WrongStateError: _refusal(409),
            FleetError: _refusal(422),
            HTTPException: _http_refusal,
        },
    )


async def _power_on(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.power_on(_lease(body))


async def _power_off(box: Box, _: dict[str, Any]) -> NodeState:
    return await box.power_off()


async def _power_cycle(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.power_cycle(_lease(body))


async def _move(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.move(_lease(body) or ())


async def _wipe(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.wipe(_lease(body))


async def _trouble(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.trouble(**body)


async def _kubelet(box: Box, body: dict[str, Any]) -> NodeState:
    return await box.set_kubelet(**body)


_VERBS: dict[str, Verb] = {
    "power-on": _power_on,
    "power-off": _power_off,
    "power-cycle": _power_cycle,
    "move": _move,
    "wipe": _wipe,
    "trouble": _trouble,
    "kubelet": _kubelet,
}


def _lease(body: dict[str, Any]) -> list[str] | None:
    try:
        return msgspec.convert(body, _Lease).addresses
    except msgspec.ValidationError as error:
        raise FleetError(str(error)) from error


async def _body(request: Request) -> dict[str, Any]:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise HTTPException(413, f"a body has {BODY_BYTES_MAX} bytes at most")
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise HTTPException(400, f"the body must be a JSON object: {error}") from error


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _refusal(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _, error: _json({"error": str(error)}, status=status)


def _http_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    return _json({"error": error.detail}, status=error.status_code)
