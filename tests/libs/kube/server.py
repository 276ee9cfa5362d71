"""An API server that misbehaves to order: every request goes to the test's own function."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Where it listens and what it was asked."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.requests: list[web.Request] = []
        self.kubeconfig = str(folder / "kubeconfig")
        self.write_kubeconfig({"token": "first"})

    def write_kubeconfig(self, user: dict[str, Any], **cluster: Any) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}", **cluster}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        Path(self.kubeconfig).write_text(yaml.safe_dump(config))

    def empty_kubeconfig(self) -> None:
        Path(self.kubeconfig).write_text("")

    @property
    def lists(self) -> list[web.Request]:
        return [request for request in self.requests if "watch" not in request.query]

    @property
    def watches(self) -> list[web.Request]:
        return [request for request in self.requests if "watch" in request.query]


@asynccontextmanager
async def serving(folder: Path, answer: Answer) -> AsyncIterator[Server]:
    """Serve on a free loopback port until the block ends; open streams are cut then."""

    async def handle(request: web.Request) -> web.StreamResponse:
        server.requests.append(request)
        return await answer(request)

    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = Server(runner.addresses[0][1], folder)
    try:
        yield server
    finally:
        await runner.cleanup()


def node(name: str, version: int, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}, **fields}


def at(name: str, version: int, *addresses: str, uid: str = "") -> dict[str, Any]:
    listed = [{"type": "InternalIP", "address": address} for address in addresses]
    return node(name, version, uid=uid, status={"addresses": listed})


def event(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def listing(version: int, *items: dict[str, Any], continuation: str = "") -> web.Response:
    metadata = {"resourceVersion": str(version), "continue": continuation}
    return web.json_response({"kind": "NodeList", "metadata": metadata, "items": list(items)})


def status(code: int, reason: str, message: str = "", headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)


async def stream(request: web.Request, *parts: bytes, then: str = "end") -> web.StreamResponse:
    """Send these bytes, then end, stay open ("hang") or break off ("cut")."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for part in parts:
        await response.write(part)
    if then == "hang":
        await asyncio.Event().wait()
    if then == "cut":
        assert request.transport is not None
        request.transport.abort()
    return response
