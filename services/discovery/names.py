"""DNS names among the ranges: looked up at each sweep, since where they point is what may have changed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from libs.endpoint import Endpoint
from libs.runtime import log
from services.discovery.ranges import Target, target

LOOKUP_SECONDS = 5.0


async def resolve(names: Iterable[Endpoint]) -> list[Target]:
    """Return every address of every name; a name that cannot be looked up is logged and left out."""
    found = await asyncio.gather(*map(_addresses, names))
    return list(dict.fromkeys(hit for hits in found for hit in hits))


async def _addresses(name: Endpoint) -> list[Target]:
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            answers = await asyncio.get_running_loop().getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        log("discovery").warning("name not found", name=name.host, why=str(error) or "no answer in time")
        return []
    addresses = (str(answer[4][0]) for answer in answers)
    return [target(address, name.port) for address in addresses if "%" not in address]
