"""Events on their way to the trail: rounds put them here and go on, whether NATS is there or not."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from libs import runtime
from libs.events import EndpointObserved, Event

SUBJECTS_MAX = 20_000
HISTORY_MAX = 16
"""So many events of one subject wait for NATS; older ones are dropped, as what holds now matters more."""
PUBLISHERS = 32

_log = runtime.log("outbox")


class Publisher(Protocol):
    """The part of the bus that is used here."""

    async def publish(self, event: Event, *, subject: str, message_id: str, made_at: float | None = None) -> object: ...


class Outbox:
    """In order within a subject, side by side across subjects, bounded."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._queue: runtime.KeyQueue[str] = runtime.KeyQueue()
        self._waiting: dict[str, deque[tuple[Event, str, float]]] = {}
        self.dropped = 0

    def put(self, event: Event, *, subject: str, message_id: str, newest_only: bool = False) -> None:
        """Publish soon. With `newest_only`, what still waits under the subject is replaced: it no longer holds."""
        events = self._waiting.get(subject)
        if events is None:
            if len(self._waiting) >= SUBJECTS_MAX:
                self._drop(next(iter(self._waiting)))
            events = self._waiting[subject] = deque(maxlen=HISTORY_MAX)
        if newest_only:
            events.clear()
        elif len(events) == HISTORY_MAX:
            self.dropped += 1
        events.append((event, message_id, time.monotonic()))
        self._queue.add(subject)

    async def run(self) -> None:
        """Publish for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(PUBLISHERS):
                group.create_task(self._publish(), name=f"publisher-{number}")

    async def _publish(self) -> None:
        while True:
            subject = await self._queue.get()
            try:
                while events := self._waiting.get(subject):
                    event, message_id, made_at = events.popleft()
                    await self._publish_one(event, subject, message_id, made_at)
                self._waiting.pop(subject, None)
            finally:
                self._queue.done(subject)

    async def _publish_one(self, event: Event, subject: str, message_id: str, made_at: float) -> None:
        # Only observations carry an age: how old other events are is of no consequence.
        since = made_at if isinstance(event, EndpointObserved) else None
        try:
            await self._publisher.publish(event, subject=subject, message_id=message_id, made_at=since)
        except Exception:  # noqa: BLE001 - the bus retries all that can pass; what is left never will
            _log.exception("event not published", subject=subject, message_id=message_id)

    def _drop(self, subject: str) -> None:
        self.dropped += len(self._waiting.pop(subject))
        self._queue.forget(subject)
