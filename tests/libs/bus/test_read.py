import asyncio
from collections.abc import AsyncIterator

import nats as bare
import pytest

from libs import bus, events
from libs.embedded.nats_server import NatsServer
from libs.events import subjects
from libs.identity import Identity
from libs.machine import Source
from tests.libs.bus.conftest import Connect, Site, until
from tests.libs.bus.sample import node_event, publish_node


@pytest.fixture
async def raw(server: NatsServer) -> AsyncIterator[bare.NATS]:
    client = await bare.connect(server.url)
    yield client
    await client.close()


async def publish_many(site: Site, count: int, sweep: int) -> None:
    async def one(i: int) -> None:
        subject = subjects.observed_discovery("home", f"box{i}")
        event = events.EndpointObserved(
            source=Source.DISCOVERY,
            addresses=(events.SeenAddress(address=f"10.0.{i // 250}.{i % 250}"),),
            identity=Identity(uuid=f"u{i}"),
            sweep=sweep,
        )
        await site.nats.publish(event, subject=subject, message_id=f"{subject}/{sweep}")

    async with asyncio.TaskGroup() as group:
        for i in range(count):
            group.create_task(one(i))


async def test_newest_gives_each_subject_once_however_many_there_are(site: Site) -> None:
    """More subjects than the server would give in one read (1,024), and several batches."""
    for sweep in (1, 2):
        await publish_many(site, 1300, sweep)
    seen = [d async for d in site.nats.newest(bus.SIGHTINGS, "nodetrail.observed.discovery.>")]
    assert len(seen) == len({d.subject for d in seen}) == 1300
    assert all(isinstance(d.event, events.EndpointObserved) and d.event.sweep == 2 for d in seen)
    assert seen[0].stream == "SIGHTINGS"


async def test_newest_of_the_trail_is_the_last_of_each_subject(site: Site) -> None:
    for version in ("1", "2", "3"):
        await publish_node(site.nats, "n1", version)
    last_id = await publish_node(site.nats, "n2", "9")
    seen = {d.subject: d async for d in site.nats.newest(bus.TRAIL, "nodetrail.observed.node.*")}
    assert {s: d.message_id.rpartition("/")[2] for s, d in seen.items()} == {
        "nodetrail.observed.node.n1": "3",
        "nodetrail.observed.node.n2": "9",
    }
    last = await site.nats.last(bus.TRAIL, "nodetrail.observed.node.n2")
    assert last == seen["nodetrail.observed.node.n2"]
    assert last is not None
    assert (last.message_id, last.sequence, last.event) == (last_id, 4, node_event("n2", "9"))


async def test_where_there_is_nothing(site: Site) -> None:
    assert await site.nats.last(bus.TRAIL, "nodetrail.observed.node.nobody") is None
    assert [d async for d in site.nats.newest(bus.TRAIL, "nodetrail.observed.>")] == []


async def test_what_cannot_be_decoded_is_left_out(site: Site, raw: bare.NATS) -> None:
    await raw.jetstream().publish("nodetrail.observed.node.bad", b"\xff")
    await publish_node(site.nats, "good")
    seen = [d.subject async for d in site.nats.newest(bus.TRAIL, "nodetrail.observed.>")]
    assert seen == ["nodetrail.observed.node.good"]
    assert await site.nats.last(bus.TRAIL, "nodetrail.observed.node.bad") is None


async def test_reads_wait_for_the_stream_and_say_so(connect: Connect) -> None:
    async with connect() as site:
        reading = asyncio.ensure_future(site.nats.last(bus.TRAIL, "nodetrail.observed.node.n1"))
        await until(lambda: "read" in site.health.waits)
        await site.nats.ensure_streams()
        assert await reading is None
        assert site.health.ready


async def test_reads_wait_out_an_outage(site: Site, server: NatsServer) -> None:
    await publish_node(site.nats, "n1")
    server.process.kill()
    await until(lambda: not site.nats.connected)
    reading = asyncio.ensure_future(site.nats.last(bus.TRAIL, "nodetrail.observed.node.n1"))
    await asyncio.to_thread(server.start)
    assert await reading is not None
