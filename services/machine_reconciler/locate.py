"""Finds a machine that does not answer where it should: asks every place it may be at once, for proof.

The idea is that of RFC 8305: the present dial endpoint is preferred for a moment, so a node with several
addresses does not flip, and a silent old address costs no more than that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from libs import kube
from libs.endpoint import Endpoint, InvalidEndpointError, normalise_address, parse_endpoint
from libs.machine import TalosMachine, dial_endpoint
from services.machine_reconciler.facts import Answer, CredentialsRefused, Located, Proven, Silent

HEAD_START_SECONDS = 0.5
ALONE_SECONDS = 0.1
"""So long the dial endpoint is asked alone: most machines are where they were last recorded."""
CANDIDATES_MAX = 32
LIKE_MAX = 8
"""Of these, places that only a Node's UUID speaks for: any kubelet can write the UUID of another box."""
AT_ONCE = 16
RESOLVE_SECONDS = 1.0

Prove = Callable[[Endpoint], Awaitable[Answer]]


class Candidates(NamedTuple):
    """Where a machine may be other than at its dial endpoint, the likeliest first."""

    places: list[Endpoint]
    complete: bool
    """False when there were more than are asked."""


def candidates(
    machine: TalosMachine, *, named: Iterable[kube.Node], like: Iterable[kube.Node], worked: Sequence[str]
) -> Candidates:
    """Return the addresses of the machine's own Nodes, the declared one, earlier ones, and then of like Nodes.

    All are on the declared port, since that is where an observed address is dialled.
    """
    declared = parse_endpoint(machine.spec.endpoint)
    found = [*_listed(named, declared.port), declared]
    found += [Endpoint(parse_endpoint(text).host, declared.port) for text in worked]
    likely = dict.fromkeys(found)
    others = [place for place in dict.fromkeys(_listed(like, declared.port)) if place not in likely]
    places = [*list(likely)[: CANDIDATES_MAX - LIKE_MAX], *others[:LIKE_MAX]]
    complete = len(places) == len(likely) + len(others)
    dialled = parse_endpoint(dial_endpoint(machine))
    return Candidates([place for place in places if place != dialled], complete)


def _listed(nodes: Iterable[kube.Node], port: int) -> Iterator[Endpoint]:
    for text in (address for node in nodes for address in node.addresses()):
        with contextlib.suppress(InvalidEndpointError):
            yield Endpoint(normalise_address(text), port)


async def locate(asked: Candidates, prove: Prove, *, declared: Endpoint) -> Located:
    """Ask all places at once; the first that proves the identity ends it."""
    places = asked.places
    doors = asyncio.Semaphore(AT_ONCE)
    answers: dict[Endpoint, Answer] = {}

    async def ask(place: Endpoint, resolved: Endpoint) -> tuple[Endpoint, Answer]:
        async with doors:
            answer = answers[place] = await prove(resolved)
            return resolved, answer

    resolved = await asyncio.gather(*map(_resolved, places))
    asking = [
        asyncio.ensure_future(ask(place, there))
        for place, addresses in zip(places, resolved, strict=True)
        for there in addresses
    ]
    try:
        for answered in asyncio.as_completed(asking):
            there, answer = await answered
            if isinstance(answer, Proven):
                return Located(proven_at=str(there), fingerprint=answer.fingerprint)
    finally:
        await _cancel(*asking)
    # A node that refuses our credentials may be the machine: it was asked, and told nothing.
    told = not any(isinstance(answer, CredentialsRefused) for answer in answers.values())
    return Located(declared=answers.get(declared), complete=asked.complete and told)


async def read_beside(
    read: Awaitable[Answer], hunt: Callable[[], Awaitable[Located]], *, dial: str
) -> tuple[Answer, Located | None]:
    """Read the dial endpoint, and hunt the machine elsewhere if that takes long or fails.

    What answers at the dial endpoint is preferred: a proof from elsewhere counts once that has failed, or has been
    silent for the head start.
    """
    began = asyncio.get_running_loop().time()
    reading = asyncio.ensure_future(read)
    hunting: asyncio.Future[Located] | None = None
    try:
        await asyncio.wait({reading}, timeout=ALONE_SECONDS)
        if reading.done() and _is_settled(reading.result()):
            return reading.result(), None
        hunting = asyncio.ensure_future(hunt())
        await asyncio.wait({reading}, timeout=HEAD_START_SECONDS - (asyncio.get_running_loop().time() - began))
        while not reading.done():
            if hunting.done() and hunting.result().proven_at:
                why = f"{dial} gave no answer within {HEAD_START_SECONDS:g} s, while it answered elsewhere"
                return Silent(why=why), hunting.result()
            pending = {reading} if hunting.done() else {reading, hunting}
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        answer = reading.result()
        return (answer, None) if _is_settled(answer) else (answer, await hunting)
    finally:
        await _cancel(*(task for task in (reading, hunting) if task is not None))


def _is_settled(answer: Answer) -> bool:
    """Whether there is no need to look elsewhere."""
    return isinstance(answer, Proven | CredentialsRefused)


async def _resolved(place: Endpoint) -> list[Endpoint]:
    """Return the addresses behind a place; a name that does not resolve in time has none."""
    if place.address is not None:
        return [place]
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except OSError:  # TimeoutError included
        return []
    return [Endpoint(address, place.port) for address in dict.fromkeys(str(info[4][0]) for info in found)]


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
