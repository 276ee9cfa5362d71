"""One at a time for each machine: its observations are decided in turn, those of others beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Turns:
    """Locks by key, kept only while somebody holds or wants them."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._wanted: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the key's turn while the block runs; first come, first served."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._wanted[key] = self._wanted.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key], self._locks[key]
