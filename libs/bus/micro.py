"""Showing a process to `nats micro list`: PING, INFO and STATS, on each connection anew."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import nats.errors
from nats.micro import add_service
from nats.micro.service import Service

from libs.bus.link import Link, Links

STOP_SECONDS = 1.0
_NOT_SEMANTIC = re.compile(r"^(?!\d+\.\d+\.\d+)")


@contextlib.asynccontextmanager
async def micro_service(links: Links, name: str, version: str, description: str) -> AsyncIterator[None]:
    """Be registered while the block runs; a new connection registers again by itself."""
    services: list[Service] = []

    async def register(link: Link) -> None:
        services[:] = [await add_service(link.client, name=name, version=_semantic(version), description=description)]

    remove = links.on_up(register)
    try:
        if (link := links.now) is not None:
            with contextlib.suppress(nats.errors.Error, OSError):  # lost meanwhile: the next one registers
                await register(link)
        yield
    finally:
        remove()
        if links.now is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                async with asyncio.timeout(STOP_SECONDS):
                    for service in services:
                        await service.stop()


def _semantic(version: str) -> str:
    return f"0.0.0+{version}" if _NOT_SEMANTIC.match(version) else version
