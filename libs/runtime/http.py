"""The HTTP side of a process: /healthz, /readyz and /metrics, and behind them a service's own pages.

uvicorn serves; signals stay ours, so its own handling of them is switched off.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from libs.runtime.health import Health

_BACKLOG = 128
_START_SECONDS = 10.0
_CLOSE_SECONDS = 2.0


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; `OSError` when the address is not ours to have."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def address_of(listener: socket.socket) -> str:
    """Write the socket's own address as host:port, the real port included."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def pages(health: Health, registry: CollectorRegistry, behind: ASGIApp | None = None) -> Starlette:
    """Return the app with the three pages; every other path is answered by `behind`."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        waits = health.waits
        if not waits:
            return PlainTextResponse("ok\n")
        return PlainTextResponse("".join(f"{part}: {why}\n" for part, why in sorted(waits.items())), status_code=503)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    routes: list[BaseRoute] = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    if behind is not None:
        routes.append(Mount("/", behind))
    return Starlette(routes=routes)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process behind our back."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Serve until the block ends; open connections get a moment to finish, then are cut."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    task = loop.create_task(server.serve(sockets=[listener]), name="http")
    try:
        async with asyncio.timeout(_START_SECONDS):
            await server.up.wait()
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([task], timeout=_CLOSE_SECONDS)
        task.cancel()
        await asyncio.wait([task], timeout=_CLOSE_SECONDS)
        listener.close()
