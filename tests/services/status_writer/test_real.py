"""On a real kube-apiserver and a real nats-server: other writes in between, two writers, kills, outages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from nats.js.client import JetStreamContext

from libs import kube, rules
from libs.embedded.nats_server import NatsServer
from libs.embedded.operator import Operator, operator_at
from libs.embedded.service import ServiceProcess
from libs.events import EndpointDecided, EndpointObserved, MachineRef, decode, encode, subjects
from libs.machine import Ready, TalosMachine
from services.status_writer.gate import Gate
from services.status_writer.metrics import Metrics
from services.status_writer.writer import Writer
from tests.libs.rules.given import DECLARED, IDENTITY, OTHER_PIN, discovery, node, read
from tests.peers.kube_api import KubeApi
from tests.services.status_writer.fakes import Desk, NoHealth, Trail, subject_of

NAMESPACE, NAME = "nodetrail", "one"
ELSEWHERE, THIRD = "10.0.0.9", "10.0.0.17"
RECONCILER = "nodetrail-machine-reconciler"


@pytest.fixture
async def operator(clean_kube: KubeApi) -> AsyncIterator[Operator]:
    async with operator_at(str(clean_kube.kubeconfigs["admin"]), NAMESPACE) as operator:
        yield operator


@pytest.fixture
async def reconciler(clean_kube: KubeApi) -> AsyncIterator[kube.Api]:
    config = str(clean_kube.kubeconfigs["machine-reconciler"])
    async with kube.connect(config, agent="machine-reconciler") as api:
        yield api


async def declare(operator: Operator, **spec: Any) -> TalosMachine:
    body = {
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"endpoint": DECLARED, "identity": msgspec.to_builtins(IDENTITY), "hostname": "worker-1"} | spec,
    }
    made = await operator.api.create(kube.MACHINES, body, NAMESPACE)
    # What is seen within a second of the edit may be from before it, and is refused.
    edited = max(entry.time for entry in made.metadata.managed_fields if entry.time is not None)
    while (datetime.now(UTC) - edited).total_seconds() < 1.1:
        await asyncio.sleep(0.05)
    return made


def proof(about: TalosMachine, address: str) -> EndpointObserved:
    """The machine was read there; the UID tells it from namesakes."""
    ref = MachineRef(namespace=NAMESPACE, name=NAME, uid=about.metadata.uid)
    return msgspec.structs.replace(read(address), machine=ref)


async def reconcile(reconciler: kube.Api, ready: Ready) -> TalosMachine:
    """Write what the reconciler writes of a machine that was sent."""
    status = {
        "configuration": {"sentTo": "p" * 43 + "="},
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready is Ready.CONVERGED else "False",
                "reason": ready,
                "message": "",
                "lastTransitionTime": "2026-11-20T12:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    return await reconciler.apply(
        kube.MACHINES, NAME, {"status": status}, NAMESPACE, manager=RECONCILER, subresource="status"
    )


class Between:
    """An API that lets somebody else write between each read and what follows it, as often as there is a turn."""

    def __init__(self, api: kube.Api, *turns: Callable[[], Any]) -> None:
        self.api = api
        self.turns = list(turns)
        self.conflicts = 0

    async def get(self, resource: kube.Resource[TalosMachine], name: str, namespace: str = "") -> TalosMachine:
        found = await self.api.get(resource, name, namespace)
        if self.turns:
            await self.turns.pop(0)()
        return found

    async def apply(
        self, resource: kube.Resource[TalosMachine], name: str, body: Mapping[str, Any], namespace: str = "", **how: Any
    ) -> TalosMachine:
        try:
            return await self.api.apply(resource, name, body, namespace, **how)
        except kube.Conflict:
            self.conflicts += 1
            raise


@asynccontextmanager
async def writer_at(server: KubeApi, trail: Trail, *turns: Callable[[], Any]) -> AsyncIterator[tuple[Writer, Between]]:
    """A writer in this process, as its own account, which has listed the machines."""
    config = str(server.kubeconfigs["status-writer"])
    async with kube.connect(config, agent="status-writer") as api:
        between = Between(api, *turns)
        gate = Gate(lambda: api.get(kube.MACHINES, "any", "default"), NoHealth())
        writer = Writer(between, trail, gate, limits=rules.Limits(), metrics=Metrics())
        for machine in (await api.list(kube.MACHINES)).items:
            writer.machine_changed(None, machine)
        yield writer, between


async def tell(writer: Writer, observed: EndpointObserved, at: datetime, message_id: str = "") -> None:
    work = writer.handle(Desk().delivery(observed, at=at, message_id=message_id))
    if work is not None:
        await work


async def test_the_patch_leaves_all_other_fields_to_their_owners(
    clean_kube: KubeApi, operator: Operator, reconciler: kube.Api
) -> None:
    before = await declare(operator)
    await reconcile(reconciler, Ready.CURRENT_CONFIG_UNAVAILABLE)
    trail, seen_at = Trail(), datetime.now(UTC)
    async with writer_at(clean_kube, trail) as (writer, _):
        await tell(writer, node(ELSEWHERE), seen_at)
    after = await operator.api.get(kube.MACHINES, NAME, NAMESPACE)
    assert after.spec == before.spec
    assert after.was_sent
    assert after.status.conditions
    assert after.status.observed_at == seen_at
    assert (after.status.observed_endpoint, after.status.observed_source) == (ELSEWHERE, "node")
    ours = [entry.fields for entry in after.metadata.managed_fields if entry.manager == "nodetrail-status-writer"]
    assert [set(fields["f:status"]) for fields in ours] == [
        {"f:observedEndpoint", "f:observedEndpointFor", "f:observedSource", "f:observedAt"}
    ]


async def test_somebody_elses_status_write_in_between_means_deciding_again(
    clean_kube: KubeApi, operator: Operator, reconciler: kube.Api
) -> None:
    await declare(operator)
    await reconcile(reconciler, Ready.CURRENT_CONFIG_UNAVAILABLE)
    trail = Trail()

    async def still_lost() -> None:
        await reconcile(reconciler, Ready.IDENTITY_MISMATCH)

    async with writer_at(clean_kube, trail, still_lost) as (writer, between):
        await tell(writer, node(ELSEWHERE), datetime.now(UTC))
    assert between.conflicts == 1
    assert trail.decided == [("recorded", "NodeMoved")]


async def test_a_decision_that_no_longer_holds_is_not_written(
    clean_kube: KubeApi, operator: Operator, reconciler: kube.Api
) -> None:
    await declare(operator)
    await reconcile(reconciler, Ready.CURRENT_CONFIG_UNAVAILABLE)
    trail = Trail()

    async def readable_again() -> None:
        await reconcile(reconciler, Ready.CONVERGED)

    async with writer_at(clean_kube, trail, readable_again) as (writer, between):
        await tell(writer, node(ELSEWHERE), datetime.now(UTC))
    assert between.conflicts == 1
    assert trail.decided == [("refused", "StillReadable")]
    assert not (await operator.api.get(kube.MACHINES, NAME, NAMESPACE)).status.observed_endpoint


async def test_an_edit_in_between_is_the_operators_last_word(clean_kube: KubeApi, operator: Operator) -> None:
    await declare(operator)
    trail = Trail()

    async def edit() -> None:
        await operator.edit_spec(NAME, {"endpoint": THIRD})

    async with writer_at(clean_kube, trail, edit) as (writer, between):
        await tell(writer, discovery(ELSEWHERE), datetime.now(UTC))
    assert between.conflicts == 1
    assert trail.decided == [("refused", "PredatesSpec")]
    assert not (await operator.api.get(kube.MACHINES, NAME, NAMESPACE)).status.observed_endpoint


@pytest.mark.parametrize(
    ("later_ms", "reason", "end"),
    [pytest.param(1, "Superseded", THIRD, id="a newer one"), pytest.param(-1, "Proven", ELSEWHERE, id="an older one")],
)
async def test_another_writer_writes_between_read_and_patch(
    clean_kube: KubeApi, operator: Operator, reconciler: kube.Api, *, later_ms: int, reason: str, end: str
) -> None:
    machine = await declare(operator)
    await reconcile(reconciler, Ready.CURRENT_CONFIG_UNAVAILABLE)
    trail, at = Trail(), datetime.now(UTC)
    async with writer_at(clean_kube, trail) as (other, _):

        async def the_other_writer() -> None:
            await tell(other, proof(machine, THIRD), at + timedelta(milliseconds=later_ms), "theirs")

        async with writer_at(clean_kube, trail, the_other_writer) as (one, between):
            await tell(one, proof(machine, ELSEWHERE), at, "ours")
    assert between.conflicts == 1
    assert [reason for _, reason in trail.decided] == ["Proven", reason]
    assert (await operator.api.get(kube.MACHINES, NAME, NAMESPACE)).status.observed_endpoint == end


async def test_two_writers_at_once_end_where_one_would(
    clean_kube: KubeApi, operator: Operator, reconciler: kube.Api
) -> None:
    machine = await declare(operator)
    await reconcile(reconciler, Ready.CURRENT_CONFIG_UNAVAILABLE)
    trail, begun = Trail(), datetime.now(UTC)
    reads = [(f"10.0.1.{n}", begun + timedelta(microseconds=n)) for n in range(12)]
    async with writer_at(clean_kube, trail) as (one, _), writer_at(clean_kube, trail) as (other, _):
        await asyncio.gather(
            *(tell(one, proof(machine, address), at, f"read-{address}") for address, at in reads),
            *(tell(other, proof(machine, address), at, f"read-{address}") for address, at in reversed(reads)),
        )
    after = await operator.api.get(kube.MACHINES, NAME, NAMESPACE)
    assert (after.status.observed_endpoint, after.status.observed_at) == reads[-1]
    recorded = [event for _, event in trail.letters.values() if event.outcome == "recorded"]
    assert reads[-1][0] in {event.after for event in recorded}


class Site:
    """A nats-server and one status writer as a process."""

    def __init__(self, server: NatsServer, service: ServiceProcess, stream: JetStreamContext) -> None:
        self.service = service
        self.server = server
        self._stream = stream
        self._sweep = 0

    async def publish(self, observed: EndpointObserved) -> str:
        self._sweep += 1
        subject = subject_of(observed)
        message_id = f"{subject}/{self._sweep}"
        headers, data = encode(observed, message_id=message_id, source="test", time=datetime.now(UTC))
        await self._stream.publish(subject, data, headers=headers)
        return message_id

    async def decisions(self) -> list[EndpointDecided]:
        """Return everything that was decided about machines, in the trail's order."""
        found = []
        subscription = await self._stream.subscribe("nodetrail.decided.>", ordered_consumer=True)
        while (await self._pending(subscription)) or subscription.pending_msgs:
            message = await subscription.next_msg(timeout=5)
            event = decode(message.headers, message.data)
            assert isinstance(event, EndpointDecided)
            found.append(event)
        await subscription.unsubscribe()
        return found

    async def _pending(self, subscription: Any) -> int:
        return int((await subscription.consumer_info()).num_pending)

    async def dead(self) -> list[str]:
        info = await self._stream.stream_info(subjects.TRAIL, subjects_filter="nodetrail.dead.>")
        return sorted(info.state.subjects or {})

    async def until_settled(self, *, seconds: float = 20) -> None:
        """Wait until both consumers have nothing left."""
        async with asyncio.timeout(seconds):
            for stream, durable in (
                (subjects.SIGHTINGS, "status-writer-sightings"),
                (subjects.TRAIL, "status-writer-trail"),
            ):
                while True:
                    info = await self._stream.consumer_info(stream, durable)
                    if not info.num_pending and not info.num_ack_pending:
                        break
                    await asyncio.sleep(0.02)


@pytest.fixture
async def site(nats_server: NatsServer, clean_kube: KubeApi, tmp_path: Path) -> AsyncIterator[Site]:
    service = ServiceProcess(
        "status_writer",
        {"nats_url": nats_server.url, "denied_ranges": "10.244.0.0/16"},
        log_file=tmp_path / "status_writer.log",
        kubeconfig=clean_kube.kubeconfigs["status-writer"],
    )
    try:
        await asyncio.to_thread(service.start)
        client = await nats.connect(nats_server.url)
        yield Site(nats_server, service, client.jetstream(timeout=5))
        await client.close()
    finally:
        await asyncio.to_thread(service.process.stop)


def is_at(address: str) -> Callable[[list[TalosMachine]], bool]:
    return lambda machines: any(machine.status.observed_endpoint == address for machine in machines)


async def test_from_the_stream_to_the_status(site: Site, operator: Operator) -> None:
    await declare(operator)
    message_id = await site.publish(discovery(ELSEWHERE))
    await operator.until(is_at(ELSEWHERE), what="recorded", seconds=20)
    await site.publish(discovery("10.244.0.1", site="far"))
    await site.publish(discovery((ELSEWHERE, OTHER_PIN)))
    await site.until_settled()
    recorded, refused = await site.decisions()
    assert (recorded.outcome, recorded.observation_id) == ("recorded", message_id)
    assert (refused.outcome, refused.reason) == ("refused", "AddressNotDialable")


async def test_streams_and_every_services_consumers_are_there(site: Site) -> None:
    wanted = {
        subjects.SIGHTINGS: {"status-writer-sightings", "machine-reconciler-sightings"},
        subjects.TRAIL: {"status-writer-trail", "machine-reconciler-trail"},
    }
    async with asyncio.timeout(20):
        for stream, durables in wanted.items():
            while {info.name for info in await site._stream.consumers_info(stream)} != durables:
                await asyncio.sleep(0.05)


async def test_killed_at_any_moment_the_end_is_the_same(site: Site, operator: Operator) -> None:
    await declare(operator)
    for n in range(5):
        await site.publish(discovery(f"10.0.2.{n}"))
        await asyncio.sleep(n * 0.004)
        await asyncio.to_thread(site.service.process.kill)
        await asyncio.to_thread(site.service.start)
        await operator.until(is_at(f"10.0.2.{n}"), what=f"recorded after kill {n}", seconds=30)
    await site.until_settled(seconds=40)
    recorded = [event.after for event in await site.decisions() if event.outcome == "recorded"]
    assert sorted(set(recorded)) == [f"10.0.2.{n}" for n in range(5)], "each is told, whenever it was killed"


async def test_while_the_api_server_is_away_the_backlog_stays_in_the_stream(
    site: Site, operator: Operator, clean_kube: KubeApi
) -> None:
    await declare(operator)
    await asyncio.to_thread(clean_kube.stop_server, seconds=0)
    for n in range(100):
        await site.publish(discovery(f"10.0.3.{n}", site=f"site-{n}"))
    await asyncio.sleep(2)
    info = await site._stream.consumer_info(subjects.SIGHTINGS, "status-writer-sightings")
    assert (info.num_pending or 0) + info.num_ack_pending == 100
    assert not await site.dead()
    await asyncio.to_thread(clean_kube.start_server)
    await operator.until(is_at("10.0.3.99"), what="the backlog worked off", seconds=40)
    await site.until_settled(seconds=40)
    assert not await site.dead()


async def test_poison_is_set_aside_and_the_next_one_is_heard(site: Site, operator: Operator) -> None:
    await declare(operator)
    subject = subject_of(discovery(ELSEWHERE))
    await site._stream.publish("nodetrail.observed.node.poison", b"not json", headers={"ce-type": "what"})
    await site._stream.publish(subject, b"{}", headers={"ce-type": "dev.nodetrail.EndpointObserved.v9"})
    await site.publish(discovery(ELSEWHERE, site="other"))
    await operator.until(is_at(ELSEWHERE), what="recorded", seconds=20)
    await site.until_settled()
    assert await site.dead() == ["nodetrail.dead.status-writer-sightings", "nodetrail.dead.status-writer-trail"]


async def test_lost_streams_are_made_anew(site: Site, operator: Operator) -> None:
    await declare(operator)
    for stream in (subjects.SIGHTINGS, subjects.TRAIL):
        await site._stream.delete_stream(stream)
    async with asyncio.timeout(60):
        while True:
            try:
                await site.publish(discovery(ELSEWHERE))
                break
            except nats.js.errors.NoStreamResponseError:
                await asyncio.sleep(0.2)
    await operator.until(is_at(ELSEWHERE), what="recorded", seconds=40)
