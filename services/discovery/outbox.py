"""What waits to be published: the newest event of each subject, so that memory stays bounded while NATS is away.

An older picture of the same identity says nothing that the newest does not, and is dropped for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from libs import bus, runtime
from libs.events import EndpointObserved, NodeSighted

SUBJECTS_MAX = 20_000
WORKERS = 16
_POLL_SECONDS = 0.1

News = EndpointObserved | NodeSighted


class Publisher(Protocol):
    """What is needed of the bus."""

    @property
    def connected(self) -> bool: ...
    async def publish(self, event: News, *, subject: str, message_id: str, made_at: float | None = None) -> object: ...


@dataclass(frozen=True)
class _Letter:
    event: News
    message_id: str
    made_at: float


class Outbox:
    """Puts never wait; `run` publishes for ever."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._letters: dict[str, _Letter] = {}
        self._queue: runtime.KeyQueue[str] = runtime.KeyQueue()
        self._log = runtime.log("discovery")

    def __len__(self) -> int:
        """Return how many subjects have news that is not published yet."""
        return len(self._letters)

    def put(self, subject: str, event: News, *, message_id: str, made_at: float) -> bool:
        """Have this published, in place of what waits for that subject; `made_at` is of the monotonic clock.

        Returns False when too many subjects wait already, and this one was left out.
        """
        if subject not in self._letters and len(self._letters) >= SUBJECTS_MAX:
            return False
        self._letters[subject] = _Letter(event, message_id, made_at)
        self._queue.add(subject)
        return True

    async def run(self) -> None:
        """Publish what is put, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            subject = await self._queue.get()
            try:
                # So that what is taken then is the newest.
                while not self._publisher.connected:  # noqa: ASYNC110 - the bus has no event for it
                    await asyncio.sleep(_POLL_SECONDS)
                letter = self._letters.pop(subject, None)
                if letter is None:  # what was put while this waited for NATS went out with it
                    continue
                await self._publisher.publish(
                    letter.event, subject=subject, message_id=letter.message_id, made_at=letter.made_at
                )
            except bus.EventTooLarge as error:
                self._log.error("cannot be published", subject=subject, why=str(error))
            finally:
                self._queue.done(subject)
