"""Asking again until there is an answer, and saying in health what keeps it from coming."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from libs.bus.errors import ApiRefused, Disconnected, RequestFailed
from libs.bus.link import Link, Links
from libs.runtime import Backoff, Health

FIRST_SECONDS = 0.2
LIMIT_SECONDS = 5.0

T = TypeVar("T")


class Retry:
    """Tries of one kind. The part waits in health while at least one of them fails."""

    def __init__(self, part: str, *, links: Links, health: Health) -> None:
        self._part = part
        self._links = links
        self._health = health
        self._failing: dict[object, str] = {}

    async def until_answered(
        self, call: Callable[[Link], Awaitable[T]], *, on_failure: Callable[[], None] | None = None
    ) -> T:
        """Call with a link that is up until an answer comes; a lost connection is tried again at once."""
        backoff: Backoff | None = None
        key = object()
        try:
            while True:
                link = await self._links.up()
                try:
                    return await call(link)
                except Disconnected:
                    pass  # the connection itself says in health that it is gone
                except (RequestFailed, ApiRefused) as error:
                    self._failing[key] = str(error)
                    self._health.waiting(self._part, str(error))
                if on_failure is not None:
                    on_failure()
                backoff = backoff or Backoff(FIRST_SECONDS, LIMIT_SECONDS)
                await asyncio.sleep(backoff.next())
        finally:
            self._recovered(key)

    def _recovered(self, key: object) -> None:
        if self._failing.pop(key, None) is None:
            return
        if self._failing:
            self._health.waiting(self._part, next(iter(self._failing.values())))
        else:
            self._health.fine(self._part)
