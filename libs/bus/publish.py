"""Publishing: an event is out only when a stream has acknowledged it, and until then it is tried again.

Every try has the same message id, so that an event whose acknowledgement was lost is not stored twice, and
its age anew, so that the time of the observation stays right however long NATS was away.
"""

import asyncio
import time
from datetime import UTC, datetime

import msgspec

from libs import events
from libs.bus.errors import EventTooLarge
from libs.bus.link import Link, Links, api_answer
from libs.bus.metrics import Metrics
from libs.bus.retry import Retry
from libs.bus.trace import next_traceparent
from libs.events import cloudevents
from libs.runtime import Health

IN_FLIGHT_MAX = 100
"""More at once is no faster."""
_AGE_DIGITS = 3
_AGE_GROWS_BYTES = 16


class Publisher:
    """Publishes the events of one process."""

    def __init__(self, source: str, *, links: Links, health: Health, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self._published = {
            repeated: metrics.published.labels(duplicate=str(repeated).lower()) for repeated in (True, False)
        }
        self._retry = Retry("publish", links=links, health=health)
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def publish(
        self, event: events.Event, *, subject: str, message_id: str, made_at: float | None = None
    ) -> None:
        """Return when a stream has it. `made_at` is the monotonic time of the observation."""
        moment = datetime.now(UTC)
        trace = next_traceparent()

        def message() -> tuple[dict[str, str], bytes]:
            return events.encode(
                _aged(event, made_at), message_id=message_id, source=self._source, time=moment, traceparent=trace
            )

        check_size(subject, *message())

        async def attempt(link: Link) -> None:
            async with self._slots:
                headers, data = message()
                reply = await link.request(subject, data, headers=headers)
            answer = api_answer(f"publish on {subject}", reply.data)
            self._published[bool(answer.get("duplicate"))].inc()
            self._metrics.acknowledged_at.set_to_current_time()

        await self._retry.until_answered(attempt, on_failure=self._metrics.publish_failures.inc)


def check_size(subject: str, headers: dict[str, str], data: bytes) -> None:
    """Raise `EventTooLarge` when the streams would refuse the message; they count the headers too."""
    block = len("NATS/1.0\r\n\r\n") + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())
    size = block + len(data) + _AGE_GROWS_BYTES
    if size > cloudevents.MESSAGE_BYTES_MAX:
        raise EventTooLarge(f"{subject}: {size} bytes with headers, the limit is {cloudevents.MESSAGE_BYTES_MAX}")


def _aged(event: events.Event, made_at: float | None) -> events.Event:
    if made_at is None:
        return event
    age = round(max(time.monotonic() - made_at, 0.0), _AGE_DIGITS)
    aged: events.Event = msgspec.structs.replace(event, age_seconds=age)
    return aged
