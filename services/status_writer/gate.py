"""Closed while the API server is away: nothing is fetched then, and the backlog stays in the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from libs import kube, runtime

PART = "kubernetes"
PAUSE_FIRST_SECONDS = 0.25
PAUSE_LIMIT_SECONDS = 5.0


class Health(Protocol):
    """Where it is said what is waited for."""

    def waiting(self, part: str, why: str) -> None: ...
    def fine(self, part: str) -> None: ...


class Gate:
    """Closes when a call or the watch of machines fails for want of an API server; opens when both are well.

    The watch's store reports here as to a health page, and is passed on to the real one.
    """

    def __init__(self, ask: Callable[[], Awaitable[object]], health: Health) -> None:
        """`ask` makes the cheapest call there is; only `kube.Unavailable` counts as no answer."""
        self._ask = ask
        self._health = health
        self._watch_works = asyncio.Event()
        self._answers = asyncio.Event()
        self._answers.set()
        self._asking = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the API server was there the last time that it was needed."""
        return self._watch_works.is_set() and self._answers.is_set()

    def waiting(self, part: str, why: str) -> None:
        """The watch is in trouble."""
        self._watch_works.clear()
        self._health.waiting(part, why)

    def fine(self, part: str) -> None:
        """The watch works."""
        self._watch_works.set()
        self._health.fine(part)

    def close(self, why: str) -> None:
        """A call failed."""
        self._answers.clear()
        self._health.waiting(PART, why)

    async def wait(self) -> None:
        """Return when the API server is there; at once, if it was the last time."""
        while not self.is_open:
            await self._ask_until_answered()
            await self._watch_works.wait()

    async def _ask_until_answered(self) -> None:
        async with self._asking:
            backoff = runtime.Backoff(PAUSE_FIRST_SECONDS, PAUSE_LIMIT_SECONDS)
            while not self._answers.is_set():
                try:
                    await self._ask()
                except kube.Unavailable as error:
                    self._health.waiting(PART, str(error))
                    await asyncio.sleep(backoff.next())
                    continue
                except kube.KubeError:
                    pass  # an answer, whatever it says
                self._answers.set()
                self._health.fine(PART)
