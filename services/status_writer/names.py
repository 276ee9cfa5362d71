"""What a DNS name as dial endpoint stands for, looked up while facts are gathered."""

from __future__ import annotations

import asyncio
import socket

from libs import rules
from libs.endpoint import DEFAULT_PORT
from libs.machine import TalosMachine, dial_endpoint

RESOLVE_SECONDS = 1.0


async def resolve(machine: TalosMachine) -> dict[str, tuple[str, ...]]:
    """Return the addresses of the machine's dial endpoint if it is a name; a silent resolver knows none."""
    dialled = rules.endpoint_of(dial_endpoint(machine), DEFAULT_PORT)
    if dialled is None or dialled.address is not None:
        return {}
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(dialled.host, None, type=socket.SOCK_STREAM)
    except (TimeoutError, OSError, UnicodeError):
        return {dialled.host: ()}
    return {dialled.host: tuple(dict.fromkeys(str(entry[4][0]) for entry in found))}
