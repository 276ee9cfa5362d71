"""The key queue of the reconcilers: which keys want work, when, and that no key is worked on twice at once.

Each key has at most one wish, the earliest. A wish made while the key is being worked on is kept until
that work is done, so news that arrives in the middle of it is never lost.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_NOW = float("-inf")
_NEVER = float("inf")
_STALE_TIMERS_MAX = 64


class KeyQueue(Generic[K]):
    """Keys to work on; used from one event loop. `get` and `done` frame the work on one key."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._working: set[K] = set()
        # Both may hold entries whose wish has changed since; `_due` tells, and they are passed over.
        self._ready: deque[K] = deque()
        self._later: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many keys wait, now or later; those in work and not wanted again do not count."""
        return len(self._due)

    def add(self, key: K) -> None:
        """Want work on this key at once, or again as soon as the present work on it is done."""
        self._want(key, _NOW)

    def add_after(self, key: K, seconds: float) -> None:
        """Want work on this key in `seconds`, unless it is wanted earlier already."""
        self._want(key, asyncio.get_running_loop().time() + seconds)

    def forget(self, key: K) -> None:
        """Drop what is wanted of this key; work on it that has begun goes on."""
        self._due.pop(key, None)

    async def get(self) -> K:
        """Wait for a key that is due and that nobody works on; safe to cancel. Then call `done`."""
        while True:
            while self._ready:
                key = self._ready.popleft()
                if self._due.get(key) == _NOW and key not in self._working:
                    del self._due[key]
                    self._working.add(key)
                    return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.cancelled():
                    self._waiters.remove(waiter)
                else:
                    self._wake_one()  # it was this waiter's turn: somebody else takes the key
                raise

    def done(self, key: K) -> None:
        """End the work on a key that `get` returned."""
        self._working.remove(key)
        due = self._due.get(key)
        if due is not None:
            self._schedule(key, due)

    def _want(self, key: K, due: float) -> None:
        if self._due.get(key, _NEVER) <= due:
            return
        self._due[key] = due
        if key not in self._working:
            self._schedule(key, due)

    def _schedule(self, key: K, due: float) -> None:
        if due == _NOW:
            self._ready.append(key)
            self._wake_one()
            return
        if len(self._later) > 2 * len(self._due) + _STALE_TIMERS_MAX:
            self._later = [entry for entry in self._later if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._later)
        heapq.heappush(self._later, (due, next(self._order), key))
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._later:
            return
        due = self._later[0][0]
        if self._timer is not None:
            if self._timer.when() <= due and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._timer_fired)

    def _timer_fired(self) -> None:
        now = asyncio.get_running_loop().time()
        self._timer = None
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due and key not in self._working:
                self._due[key] = _NOW
                self._schedule(key, _NOW)
        self._set_timer()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
