"""What is remembered of one machine between rounds and lost with the process: nothing that safety rests on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

from libs import runtime

WORKED_MAX = 8
"""So many earlier addresses are worth asking when a machine is lost."""
STARTS_OVER_MAX = 3

R = TypeVar("R")


class Interrupted(Exception):  # noqa: N818 - nothing has failed
    """News arrived that makes what was being found out worthless."""


class Memory:
    """One machine's memory; made when it is first seen, dropped when it is deleted."""

    def __init__(self, uid: str, backoff: runtime.Backoff) -> None:
        self.uid = uid
        self.backoff = backoff
        self.accepted = ""
        """The certificate behind which the node said OK to its configuration."""
        self.proven_at = ""
        """Where the last locate found it; empty once it is read at its dial endpoint."""
        self.last_read: datetime | None = None
        self.hurry = False
        """Something said that the machine is elsewhere: this round asks everywhere at once."""
        self._hurry_next = False
        self._starts_over = 0
        self._is_calm = False
        self._worked: dict[str, None] = {}
        self._told: object = None
        self._interrupt = asyncio.Event()

    @property
    def worked(self) -> tuple[str, ...]:
        """Addresses that answered as this machine, the latest first."""
        return tuple(reversed(self._worked))

    def remember(self, address: str) -> None:
        """Keep an address that answered as this machine; the oldest makes place for it."""
        self._worked.pop(address, None)
        self._worked[address] = None
        if len(self._worked) > WORKED_MAX:
            del self._worked[next(iter(self._worked))]

    def tell(self, news: object) -> bool:
        """Take in what somebody says about where the machine is; False when just this was said last."""
        if news == self._told:
            return False
        self._told = news
        self._hurry_next = True
        self.backoff.reset()
        if not self._is_calm:
            self.interrupt()
        return True

    def calm(self) -> None:
        """Let the next round end whatever is said meanwhile: else a machine of which much is said is never read."""
        self._is_calm = True

    def interrupt(self) -> None:
        """Break off what is being found out just now."""
        self._interrupt.set()

    def begin(self) -> None:
        """Start a round: what was said before it is known to it."""
        self._interrupt.clear()
        self.hurry, self._hurry_next = self._hurry_next, False

    def starts_over(self) -> bool:
        """Count a round that no longer held; False when it is time to slow down."""
        self._starts_over += 1
        return self._starts_over <= STARTS_OVER_MAX

    def succeed(self) -> None:
        """End a round that held to its end."""
        self._starts_over = 0
        self._is_calm = False

    def fail(self) -> None:
        """End a round that came to nothing: the next one has its hurry."""
        self._hurry_next = self._hurry_next or self.hurry

    async def unless_interrupted(self, ask: Awaitable[R]) -> R:
        """Find something out, or raise `Interrupted` as soon as news arrives."""
        asking = asyncio.ensure_future(ask)
        waiting = asyncio.ensure_future(self._interrupt.wait())
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            raise Interrupted
        finally:
            for task in (asking, waiting):
                task.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)
