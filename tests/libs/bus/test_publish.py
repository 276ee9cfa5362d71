import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import nats as bare
import pytest

from libs import bus, events
from libs.embedded.nats_server import NatsServer
from libs.events import cloudevents, subjects
from tests.libs.bus.conftest import Connect, Site, tapped, until
from tests.libs.bus.sample import node_event, publish_node


@pytest.fixture
async def raw(server: NatsServer) -> AsyncIterator[bare.NATS]:
    client = await bare.connect(server.url)
    yield client
    await client.close()


async def count(site: Site, stream: str) -> int:
    link = await site.nats._links.up()
    return int((await link.api(f"STREAM.INFO.{stream}"))["state"]["messages"])


async def test_what_is_on_the_wire_is_a_cloudevent_that_a_person_can_read(site: Site, raw: bare.NATS) -> None:
    tap = await tapped(raw, "nodetrail.>")
    await publish_node(site.nats, "n1", "7")
    message = await tap.next_msg(timeout=5)
    assert message.subject == "nodetrail.observed.node.n1"
    headers = message.headers
    assert headers["ce-specversion"] == "1.0"
    assert headers["ce-type"] == "dev.nodetrail.EndpointObserved.v1"
    assert headers["ce-source"] == "nodetrail/tester"
    assert headers["ce-id"] == headers["Nats-Msg-Id"] == "nodetrail.observed.node.n1/7"
    assert abs(datetime.fromisoformat(headers["ce-time"]) - datetime.now(UTC)) < timedelta(seconds=10)
    assert headers["traceparent"].startswith("00-")
    assert message.data.startswith(b'{"source":"node","addresses":[{"address":"10.0.0.1"}]')


async def test_one_cause_is_stored_once_and_a_b_a_three_times(site: Site) -> None:
    for version in ("1", "1", "1"):
        await publish_node(site.nats, "n1", version)
    assert await count(site, bus.TRAIL) == 1
    for version in ("2", "3"):  # the same address as before, for a new reason
        await publish_node(site.nats, "n1", version)
    assert await count(site, bus.TRAIL) == 3


async def test_the_time_of_an_observation_is_the_streams_minus_its_age(site: Site) -> None:
    subject = subjects.observed_node("n1")
    await site.nats.publish(node_event(), subject=subject, message_id="a", made_at=time.monotonic() - 100)
    delivery = await site.nats.last(bus.TRAIL, subject)
    assert delivery is not None
    assert isinstance(delivery.event, events.EndpointObserved)
    assert delivery.event.age_seconds == pytest.approx(100, abs=1)
    assert delivery.stored_at - delivery.made_at == timedelta(seconds=delivery.event.age_seconds)
    assert abs(delivery.stored_at - datetime.now(UTC)) < timedelta(seconds=10)


async def test_an_event_over_the_limit_is_refused_at_once(connect: Connect) -> None:
    """Headers count, as they do for the server; the check needs no server."""
    async with connect() as site:
        await site.nats.ensure_streams()
        subject = subjects.observed_node("n1")
        with pytest.raises(bus.EventTooLarge, match=r"observed\.node\.n1: \d+ bytes"):
            await site.nats.publish(
                node_event(padding=cloudevents.MESSAGE_BYTES_MAX - 300), subject=subject, message_id="a"
            )
        await site.nats.publish(
            node_event(padding=cloudevents.MESSAGE_BYTES_MAX - 800), subject=subject, message_id="b"
        )
        assert await count(site, bus.TRAIL) == 1


async def test_the_servers_limit_is_the_one_that_is_checked(site: Site, raw: bare.NATS) -> None:
    subject = subjects.observed_node("n1")
    for extra, stored in ((0, True), (1, False)):
        headers, data = events.encode(node_event(), message_id=f"m{extra}", source="x", time=datetime.now(UTC))
        block = len("NATS/1.0\r\n\r\n") + sum(len(k) + len(v) + 4 for k, v in headers.items())
        data = data.ljust(cloudevents.MESSAGE_BYTES_MAX - block + extra)
        answer = await raw.request(subject, data, headers=headers, timeout=5)
        assert (b'"error"' not in answer.data) is stored, answer.data


async def test_nothing_is_sent_while_disconnected_and_all_of_it_once_afterwards(
    connect: Connect, server: NatsServer
) -> None:
    async with connect() as site:
        await site.nats.ensure_streams()
        await publish_node(site.nats, "before")
        server.process.kill()
        await until(lambda: not site.nats.connected, what="notices the loss")
        publishing = [
            asyncio.ensure_future(
                site.nats.publish(
                    node_event(f"n{i}"),
                    subject=subjects.observed_node(f"n{i}"),
                    message_id=f"m{i}",
                    made_at=time.monotonic(),
                )
            )
            for i in range(200)
        ]
        await asyncio.sleep(1.1)
        assert not any(task.done() for task in publishing)
        assert site.health.waits["nats"].startswith("connec")
        publishing[0].cancel()  # nobody wants this one any more: it must not appear later
        await asyncio.to_thread(server.start)
        await asyncio.gather(*publishing[1:])
        assert site.health.ready
        assert await count(site, bus.TRAIL) == 200
        assert await site.nats.last(bus.TRAIL, subjects.observed_node("n0")) is None
        delivery = await site.nats.last(bus.TRAIL, subjects.observed_node("n1"))
        assert delivery is not None
        assert isinstance(delivery.event, events.EndpointObserved)
        assert delivery.event.age_seconds > 1  # as old as it was when it went out


async def test_without_a_stream_it_waits_and_says_so(connect: Connect) -> None:
    async with connect() as site:
        publishing = asyncio.ensure_future(publish_node(site.nats))
        await until(lambda: "publish" in site.health.waits)
        assert "nobody answers on nodetrail.observed.node.n1" in site.health.waits["publish"]
        await site.nats.ensure_streams()
        await publishing
        assert site.health.ready


async def test_what_is_published_while_handling_belongs_to_the_same_trace(site: Site, raw: bare.NATS) -> None:
    from libs.bus import trace

    tap = await tapped(raw, "nodetrail.observed.node.*")
    trace.follow("00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    await publish_node(site.nats, "n1")
    trace.follow("")
    await publish_node(site.nats, "n2")
    first, second = [(await tap.next_msg(timeout=5)).headers["traceparent"] for _ in range(2)]
    assert first.startswith("00-" + "a" * 32)
    assert "b" * 16 not in first
    assert "a" * 32 not in second
