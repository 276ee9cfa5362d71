"""Opens TLS to whoever answers at an endpoint, and says in our own errors why that failed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from libs.endpoint import Endpoint
from libs.talos.errors import StrangeAnswer, Unreachable
from libs.talos.leaf import Leaf, read_leaf
from libs.talos.tls import TlsStream, client_context

ADDRESSES_MAX = 8
"""Of a DNS name, so that one name cannot make a dial endless."""

Place = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


@asynccontextmanager
async def within(endpoint: Endpoint, seconds: float) -> AsyncIterator[None]:
    """Turn the end of the time into `Unreachable`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unreachable(f"{endpoint} did not answer within {seconds:g} s") from None


async def open_tls(endpoint: Endpoint, context: ssl.SSLContext, *, timeout_seconds: float) -> TlsStream:
    """Connect and finish the handshake; `ssl.SSLCertVerificationError` when `context` does not accept the leaf."""
    async with within(endpoint, timeout_seconds):
        sock = await _connect(endpoint, timeout_seconds)
        stream = TlsStream(sock, context)
        try:
            await stream.handshake()
        except BaseException as error:
            stream.close()
            if isinstance(error, OSError) and not isinstance(error, ssl.SSLCertVerificationError):
                raise _handshake_error(endpoint, error) from error
            raise
        return stream


def presented_leaf(endpoint: Endpoint, stream: TlsStream) -> Leaf:
    """Return what the handshake showed; it proves possession of the leaf's key and nothing else."""
    try:
        return read_leaf(stream.peer_certificate())
    except ValueError as error:
        raise StrangeAnswer(f"{endpoint} presents a certificate that cannot be read") from error


async def look(endpoint: Endpoint, timeout_seconds: float) -> Leaf:
    """Return the leaf that is presented there. No certificate of ours is shown, and nothing is sent."""
    stream = await open_tls(endpoint, anybody(), timeout_seconds=timeout_seconds)
    try:
        return presented_leaf(endpoint, stream)
    finally:
        stream.close()


@cache
def anybody() -> ssl.SSLContext:
    """Return the context that accepts every leaf and shows no certificate."""
    return client_context()


async def _connect(endpoint: Endpoint, seconds: float) -> socket.socket:
    """Try each address in turn, each for its share of the time."""
    until = asyncio.get_running_loop().time() + seconds
    places = await _places(endpoint)
    reason = ""
    for number, place in enumerate(places):
        left = until - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left / (len(places) - number)):
                return await _connect_to(place)
        except TimeoutError:
            reason = f"no answer within {seconds:g} s"
        except OSError as error:
            # asyncio has a text of its own, which only repeats the address.
            reason = os.strerror(error.errno) if error.errno else str(error)
    raise Unreachable(f"cannot connect to {endpoint}: {reason}")


async def _connect_to(place: Place) -> socket.socket:
    family, address = place
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def _places(endpoint: Endpoint) -> list[Place]:
    address = endpoint.address
    if address is not None and address.version == 4:
        return [(socket.AF_INET, (endpoint.host, endpoint.port))]
    if address is not None:
        return [(socket.AF_INET6, (endpoint.host, endpoint.port, 0, 0))]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"cannot resolve {endpoint.host}: {error.strerror or error}") from error
    places: dict[Place, None] = {}
    for family, _, _, _, target in found:
        if family in (socket.AF_INET, socket.AF_INET6):
            places[family, target] = None  # type: ignore[index] # typeshed also knows targets of other families
    return list(places)[:ADDRESSES_MAX]


def _handshake_error(endpoint: Endpoint, error: OSError) -> Unreachable | StrangeAnswer:
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        reason = (error.reason or "no TLS").replace("_", " ").lower()
        return StrangeAnswer(f"{endpoint} does not speak TLS as Talos does ({reason})")
    return Unreachable(f"{endpoint} closed the connection during the TLS handshake")
