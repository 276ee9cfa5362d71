"""Remembers after a start: from the newest message of each subject, which says what was settled, where and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from libs import bus, runtime
from libs.events import EndpointDecided, subjects
from services.status_writer.memory import REPEAT_AFTER
from services.status_writer.news import StrangeObservationError
from services.status_writer.writer import Writer

_log = runtime.log("rebuild")


class Streams(Protocol):
    """The part of the bus that is used here."""

    def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]: ...


async def rebuild(writer: Writer, streams: Streams, *, now: datetime) -> None:
    """Fill the writer's memory. The machines must be known already; the observations are handled later anyway."""
    count = 0
    async for delivery in streams.newest(subjects.TRAIL, "nodetrail.decided.>"):
        count += _remember_decision(writer, delivery, now)
    for stream in (subjects.SIGHTINGS, subjects.TRAIL):
        async for delivery in streams.newest(stream, "nodetrail.observed.>"):
            try:
                writer.remember(delivery)
                count += 1
            except StrangeObservationError as error:
                _log.warning("left out", why=str(error))
    _log.info("remembered", subjects=count)


def _remember_decision(writer: Writer, delivery: bus.Delivery, now: datetime) -> int:
    event = delivery.event
    if not isinstance(event, EndpointDecided):
        return 0
    recorded = delivery.subject.startswith(f"{subjects.PREFIX}.decided.recorded.")
    if not recorded:
        if delivery.stored_at > now - REPEAT_AFTER:
            writer.refusals.published(delivery.subject, event, delivery.stored_at)
    elif event.machine is not None and event.observed_at is not None:
        known = writer.directory.get((event.machine.namespace, event.machine.name))
        if known is None or known.machine.metadata.uid != event.machine.uid:
            return 0
        writer.settlements.settle(event.machine.uid, event.observed_at, event.observation_id)
        writer.settlements.record(event.machine.uid, replaces=event.replaces, after=event.after)
    return 1
