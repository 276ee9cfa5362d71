"""Remembers after a start: from the newest message of each subject, which says what was settled, where and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from libs import bus, runtime
from libs.events import EndpointDecided, Outcome, subjects
from libs.machine import Source
from services.status_writer.memory import REPEAT_AFTER
from services.status_writer.news import StrangeObservationError
from services.status_writer.writer import Writer

_log = runtime.log("rebuild")


class Streams(Protocol):
    """The part of the bus that is used here."""

    def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]: ...


async def rebuild(writer: Writer, streams: Streams, *, now: datetime) -> None:
    """Fill the writer's memory, and tell of records that nobody was told of.

    The machines must be known already; the observations are handled later anyway.
    """
    count = 0
    told: dict[str, datetime] = {}
    async for delivery in streams.newest(subjects.TRAIL, "nodetrail.decided.>"):
        event = delivery.event
        if not isinstance(event, EndpointDecided):
            continue
        count += 1
        if event.outcome is Outcome.RECORDED:
            told |= _remember_record(writer, event)
        elif delivery.stored_at > now - REPEAT_AFTER:
            writer.refusals.published(delivery.subject, event, delivery.stored_at)
    coming: set[tuple[Source, datetime]] = set()
    for stream in (subjects.SIGHTINGS, subjects.TRAIL):
        async for delivery in streams.newest(stream, "nodetrail.observed.>"):
            try:
                news = writer.remember(delivery)
            except StrangeObservationError as error:
                _log.warning("left out", why=str(error))
                continue
            count += 1
            coming.add((news.source, news.made_at))
    _log.info("remembered", subjects=count)
    await _tell_what_was_not_told(writer, told, coming)


def _remember_record(writer: Writer, event: EndpointDecided) -> dict[str, datetime]:
    """Return when the machine's record was made, by its UID; nothing if it is a deleted namesake's."""
    if event.machine is None or event.observed_at is None:
        return {}
    known = writer.directory.get((event.machine.namespace, event.machine.name))
    if known is None or known.machine.metadata.uid != event.machine.uid:
        return {}
    writer.settlements.settle(event.machine.uid, event.observed_at, event.observation_id)
    writer.settlements.record(event.machine.uid, replaces=event.replaces, after=event.after)
    return {event.machine.uid: event.observed_at}


async def _tell_what_was_not_told(
    writer: Writer, told: dict[str, datetime], coming: set[tuple[Source, datetime]]
) -> None:
    """Publish what status holds and the trail does not: a crash came in between, or the trail was lost.

    Most such observations are delivered again and told of then; but SIGHTINGS keeps only the newest.
    """
    for machine in writer.directory.machines():
        source, at = machine.status.observed_source, machine.status.observed_at
        if source is None or at is None or (source, at) in coming:
            continue
        last = told.get(machine.metadata.uid)
        if last is None or last < at:
            await writer.tell_again(machine, source, at)
