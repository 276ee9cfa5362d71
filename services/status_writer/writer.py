"""Decides each observation: at once where it changes nothing, else on a live read, in the machine's turn.

What is to be recorded is written only to the very object that it was decided from; on a conflict everything
is read and decided again. The decision is published after the write and before the observation is
acknowledged, so a crash in between means that it is delivered again and published then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from libs import bus, kube, rules, runtime
from libs.endpoint import DEFAULT_PORT
from libs.events import Event, Outcome
from libs.identity import match_signals, normalise
from libs.machine import Source, TalosMachine
from libs.rules import Decision, Facts, Limits, Picture
from services.status_writer import names, tell
from services.status_writer.directory import Directory, Key
from services.status_writer.gate import Gate
from services.status_writer.meant import Meant, Resolver, changes_nothing
from services.status_writer.memory import Refusals, Settlements
from services.status_writer.metrics import Metrics
from services.status_writer.news import News, read
from services.status_writer.sightings import Box, Sightings
from services.status_writer.turns import Turns

MANAGER = "nodetrail-status-writer"
TRIES = 8
TRY_AGAIN_SECONDS = 0.02
"""Pause after the first conflict; it doubles, and is drawn at random below that."""
LATER_SECONDS = 2.0
FORBIDDEN_SECONDS = 30.0

_log = runtime.log("writer")


class Api(Protocol):
    """The part of the Kubernetes API that is used here."""

    async def get(self, resource: kube.Resource[TalosMachine], name: str, namespace: str = "") -> TalosMachine: ...

    async def apply(
        self,
        resource: kube.Resource[TalosMachine],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
        resource_version: str = "",
    ) -> TalosMachine: ...


class Publisher(Protocol):
    """The part of the bus that is used here."""

    async def publish(self, event: Event, *, subject: str, message_id: str) -> None: ...


class _Done(NamedTuple):
    """A decision, the machine as it was read for it, and the `spec.endpoint` that it was decided against."""

    decision: Decision
    machine: TalosMachine | None = None
    replaces: str = ""


class Writer:
    """Handles observations from both streams."""

    def __init__(
        self,
        api: Api,
        publisher: Publisher,
        gate: Gate,
        *,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        resolve: Callable[[TalosMachine], Awaitable[dict[str, tuple[str, ...]]]] = names.resolve,
    ) -> None:
        self.directory = Directory()
        self.sightings = Sightings()
        self.settlements = Settlements()
        self.refusals = Refusals()
        self._resolver = Resolver(self.directory, self.sightings)
        self._turns = Turns()
        self._api = api
        self._publisher = publisher
        self._gate = gate
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._resolve = resolve

    def machine_changed(self, old: TalosMachine | None, new: TalosMachine | None) -> None:
        """Take in a change that the watch tells of."""
        if new is not None:
            self.directory.put(new)
        elif old is not None:
            self.directory.remove(old)
            self.settlements.forget(old.metadata.uid)

    def handle(self, delivery: bus.Delivery) -> Awaitable[None] | None:
        """Decide one observation; None when that is done already."""
        news = read(delivery)
        box = self._take(news)
        if not news.observed.addresses:  # no observation of an endpoint: what is known stays
            self._metrics.dropped("NoAddress")
            return None
        meant = self._resolver.box(box) if box is not None else self._resolver.others(news)
        if self._settle_unchanged(news, meant):
            self._metrics.unchanged.inc()
            return None
        if meant.key is None:
            decision = rules.decide(self._facts(news, box, meant, machine=None))
            return self._tell(news, _Done(decision))
        return self._decide_in_turn(news, box, meant.key)

    def remember(self, delivery: bus.Delivery) -> News:
        """Take in, after a start, what may have been handled before: pictures, and what changes nothing."""
        news = read(delivery)
        box = self._take(news)
        if news.observed.addresses:
            self._settle_unchanged(news, self._resolver.box(box) if box is not None else self._resolver.others(news))
        return news

    async def tell_again(self, machine: TalosMachine, news: News) -> None:
        """Publish the record of this observation, which status holds. Told twice, the stream keeps it once."""
        facts = self._facts(news, None, Meant(key=machine.key), machine=machine)
        if (telling := self._tell(news, self._recorded_before(facts, machine))) is not None:
            await telling

    def _take(self, news: News) -> Box | None:
        if news.source is not Source.DISCOVERY or news.observed.identity is None:
            return None
        return self.sightings.take(news.subject, news.observed, news.observed.identity, news.made_at)

    def _settle_unchanged(self, news: News, meant: Meant) -> bool:
        """Whether the observation is known to change nothing; if so, remember it as settled."""
        known = self.directory.get(meant.key) if meant.key is not None else None
        if known is None or (meant.uid and meant.uid != known.machine.metadata.uid):
            return False
        if not changes_nothing(known, news):
            return False
        if rules.would_be_believed(known.machine, news.source, news.observed):
            self.settlements.settle(known.machine.metadata.uid, news.made_at, news.id)
        return True

    async def _decide_in_turn(self, news: News, box: Box | None, key: Key) -> None:
        try:
            async with self._turns.of(key):
                done = await self._decide(news, box)
        except kube.Unavailable as error:
            self._gate.close(str(error))
            raise bus.Later(max(LATER_SECONDS, error.retry_after_seconds)) from error
        except kube.Forbidden as error:
            _log.error("not permitted", machine="/".join(key), why=str(error))
            raise bus.Later(FORBIDDEN_SECONDS) from error
        if done is not None and (telling := self._tell(news, done)) is not None:
            await telling

    async def _decide(self, news: News, box: Box | None) -> _Done | None:
        """Read, decide and write until nobody came in between; None when it is about no living machine."""
        for tried in range(TRIES):
            meant = self._resolver.box_now(box, self._clock()) if box is not None else self._resolver.others(news)
            if meant.key is None:
                return _Done(rules.decide(self._facts(news, box, meant, machine=None)))
            try:
                return await self._decide_once(news, box, meant, meant.key)
            except kube.NotFound:
                self._metrics.dropped("Deleted")
                return None
            except kube.Conflict:
                self._metrics.conflicts.inc()
                await asyncio.sleep(random.uniform(0, TRY_AGAIN_SECONDS * 2**tried))  # noqa: S311 - spreads load
        raise bus.Later(LATER_SECONDS)

    async def _decide_once(self, news: News, box: Box | None, meant: Meant, key: Key) -> _Done | None:
        namespace, name = key
        machine = await self._api.get(kube.MACHINES, name, namespace)
        if meant.uid and meant.uid != machine.metadata.uid:
            self._metrics.dropped("Namesake")
            return None
        resolved = await self._resolve(machine)
        facts = self._facts(news, box, meant, machine=machine, resolved=resolved)
        if _holds(machine, news):
            return self._recorded_before(facts, machine)
        decision = rules.decide(facts)
        if decision.outcome is Outcome.RECORDED:
            written = await self._write(machine, news, decision)
            self.directory.put(written)
            self._metrics.delay.observe(max(0.0, (self._clock() - news.made_at).total_seconds()))
        if decision.settles:
            self.settlements.settle(machine.metadata.uid, news.made_at, news.id)
        return _Done(decision, machine, machine.spec.endpoint)

    def _recorded_before(self, facts: Facts, machine: TalosMachine) -> _Done:
        replaces = machine.status.observed_endpoint_for
        before = self.settlements.dialled_before(machine.metadata.uid, replaces)
        return _Done(rules.recorded_before(facts, before=before), machine, replaces)

    async def _write(self, machine: TalosMachine, news: News, decision: Decision) -> TalosMachine:
        """Write our four fields, and only to the object that was decided from."""
        status = {
            "observedEndpoint": decision.after,
            "observedEndpointFor": machine.spec.endpoint,
            "observedSource": news.source,
            "observedAt": news.made_at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        }
        return await self._api.apply(
            kube.MACHINES,
            machine.metadata.name,
            {"status": status},
            machine.metadata.namespace,
            manager=MANAGER,
            subresource="status",
            resource_version=machine.metadata.resource_version,
        )

    def _facts(
        self,
        news: News,
        box: Box | None,
        meant: Meant,
        *,
        machine: TalosMachine | None,
        resolved: Mapping[str, tuple[str, ...]] = {},
    ) -> Facts:
        port = rules.declared_port(machine) if machine is not None else DEFAULT_PORT
        listed = (rules.endpoint_of(seen.address, port) for seen in news.observed.addresses)
        endpoints = frozenset(endpoint for endpoint in listed if endpoint is not None)
        return Facts(
            machine=machine,
            rivals=meant.rivals,
            hints=meant.hints,
            source=news.source,
            observation=news.observed,
            observation_id=news.id,
            observed_at=news.made_at,
            pictures=_pictures(box, machine) if box is not None and machine is not None else (),
            shared=self.sightings.shared,
            shown_by_others=meant.shown_by_others,
            claimed=self.directory.claimed(endpoints, besides=machine.key if machine is not None else None),
            resolved=resolved,
            settled=self.settlements.newest(machine.metadata.uid) if machine is not None else None,
            now=self._clock(),
            limits=self._limits,
        )

    def _tell(self, news: News, done: _Done) -> Awaitable[None] | None:
        """Count a decision, and return its publishing if it is to be published."""
        self._metrics.decided(done.decision)
        if done.decision.outcome is Outcome.UNCHANGED:
            return None
        letter = tell.letter(news, done.decision, done.machine, replaces=done.replaces)
        if done.decision.outcome is Outcome.RECORDED:
            return self._publish_record(letter)
        if self.refusals.is_repeat(letter.subject, letter.event, self._clock()):
            self._metrics.repeats.inc()
            return None
        return self._publish_refusal(letter)

    async def _publish_record(self, letter: tell.Letter) -> None:
        await self._publish(letter)
        event = letter.event
        if event.machine is not None:
            self.settlements.record(event.machine.uid, replaces=event.replaces, after=event.after)
        _log.info("recorded", **tell.log_keys(event))

    async def _publish_refusal(self, letter: tell.Letter) -> None:
        await self._publish(tell.with_repeats(letter, self.refusals.repeats(letter.subject, letter.event)))
        self.refusals.published(letter.subject, letter.event, self._clock())
        _log.info("refused", **tell.log_keys(letter.event))

    async def _publish(self, letter: tell.Letter) -> None:
        try:
            await self._publisher.publish(letter.event, subject=letter.subject, message_id=letter.message_id)
        except bus.EventTooLarge:
            short = tell.shortened(letter)
            await self._publisher.publish(short.event, subject=short.subject, message_id=short.message_id)


def _holds(machine: TalosMachine, news: News) -> bool:
    """Whether status is what this very observation made it: it was written, and perhaps never told."""
    status, port = machine.status, rules.declared_port(machine)
    if status.observed_at != news.made_at or status.observed_source is not news.source:
        return False
    recorded = rules.endpoint_of(status.observed_endpoint, port)
    return any(rules.endpoint_of(seen.address, port) == recorded for seen in news.observed.addresses)


def _pictures(box: Box, machine: TalosMachine) -> tuple[Picture, ...]:
    """Return every site's picture of the box, and of others that match the machine: a twin may lack a network card."""
    declared = normalise(machine.spec.identity)
    boxes = [box, *(other for other in box.relatives if match_signals(declared, other.signals).is_match)]
    return tuple(picture for one in boxes for picture in one.pictures.values())
