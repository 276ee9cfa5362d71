"""Remembers after a start: from the newest message of each subject, which says what was settled, where and when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Protocol

from libs import bus, runtime
from libs.events import EndpointDecided, Outcome, subjects
from libs.machine import Source, TalosMachine
from services.status_writer.memory import REPEAT_AFTER
from services.status_writer.news import News, StrangeObservationError, held_in_status
from services.status_writer.writer import Writer

Evidence = tuple[Source, datetime]
"""By which status names an observation."""

_log = runtime.log("rebuild")


class Streams(Protocol):
    """The part of the bus that is used here."""

    def newest(self, stream: str, subject_filter: str) -> AsyncIterator[bus.Delivery]: ...


async def rebuild(writer: Writer, streams: Streams, *, now: datetime) -> None:
    """Fill the writer's memory, and tell of records that nobody was told of.

    The machines must be known already; the observations are handled later anyway.
    """
    told = await _remember_decisions(writer, streams, now)
    untold = _untold(writer, told)
    found = await _remember_observations(writer, streams, untold.keys())
    _log.info("remembered", machines=len(told), untold=len(untold))
    for (source, at), machines in untold.items():
        for machine in machines:
            await writer.tell_again(machine, found.get((source, at)) or held_in_status(machine, source, at))


async def _remember_decisions(writer: Writer, streams: Streams, now: datetime) -> dict[str, datetime]:
    """Return when the newest told record of each machine was made, by UID."""
    told: dict[str, datetime] = {}
    async for delivery in streams.newest(subjects.TRAIL, "nodetrail.decided.>"):
        event = delivery.event
        if not isinstance(event, EndpointDecided):
            continue
        if event.outcome is Outcome.RECORDED:
            told |= _remember_record(writer, event)
        elif delivery.stored_at > now - REPEAT_AFTER:
            writer.refusals.published(delivery.subject, event, delivery.stored_at)
    return told


async def _remember_observations(
    writer: Writer, streams: Streams, wanted: Collection[Evidence]
) -> dict[Evidence, News]:
    """Return those that are wanted and still in a stream."""
    found: dict[Evidence, News] = {}
    for stream in (subjects.SIGHTINGS, subjects.TRAIL):
        async for delivery in streams.newest(stream, "nodetrail.observed.>"):
            try:
                news = writer.remember(delivery)
            except StrangeObservationError as error:
                _log.warning("left out", why=str(error))
                continue
            if (news.source, news.made_at) in wanted:
                found[news.source, news.made_at] = news
    return found


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


def _untold(writer: Writer, told: dict[str, datetime]) -> dict[Evidence, list[TalosMachine]]:
    """Return the machines whose status holds what the trail does not: a crash came in between, or the trail was lost.

    Such an observation may be delivered again and told of then; but before that a newer one can take its place.
    """
    found: dict[Evidence, list[TalosMachine]] = {}
    for machine in writer.directory.machines():
        source, at = machine.status.observed_source, machine.status.observed_at
        last = told.get(machine.metadata.uid)
        if source is not None and at is not None and (last is None or last < at):
            found.setdefault((source, at), []).append(machine)
    return found
