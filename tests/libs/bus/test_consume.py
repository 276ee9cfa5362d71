import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable

import nats as bare
import pytest

from libs import bus, events
from libs.bus import consume as consume_module
from libs.bus.client import CarefulClient
from libs.embedded.nats_server import NatsServer
from libs.events import subjects
from tests.libs.bus.conftest import Connect, Site, consuming, tapped, until
from tests.libs.bus.sample import publish_node


@pytest.fixture
async def raw(server: NatsServer) -> AsyncIterator[bare.NATS]:
    client = await bare.connect(server.url)
    yield client
    await client.close()


async def dead_letters(site: Site, durable: str = "test") -> events.DeadLetter | None:
    delivery = await site.nats.last(bus.TRAIL, subjects.dead(durable))
    if delivery is None:
        return None
    assert isinstance(delivery.event, events.DeadLetter)
    return delivery.event


async def state(site: Site, durable: str = "test", stream: str = bus.TRAIL) -> tuple[int, int]:
    """Messages that wait, and messages that are not acknowledged."""
    info = await (await site.nats._links.up()).api(f"CONSUMER.INFO.{stream}.{durable}")
    return info["num_pending"], info["num_ack_pending"]


async def settled(site: Site, durable: str = "test") -> None:
    async with asyncio.timeout(20):
        while await state(site, durable) != (0, 0):
            await asyncio.sleep(0.02)


async def test_what_is_published_is_handled_and_acknowledged(site: Site) -> None:
    seen: list[bus.Delivery] = []
    async with consuming(site, seen.append):
        ids = [await publish_node(site.nats, f"n{i}") for i in range(150)]
        await until(lambda: len(seen) == 150)
        await settled(site)
    assert [d.message_id for d in seen] == ids
    first = seen[0]
    assert (first.stream, first.subject, first.sequence) == ("TRAIL", "nodetrail.observed.node.n0", 1)
    assert isinstance(first.event, events.EndpointObserved)
    assert first.deliveries == 1


async def test_slow_work_runs_side_by_side_within_its_bound(site: Site) -> None:
    running = peak = done = 0

    async def handle(_: bus.Delivery) -> None:
        nonlocal running, peak, done
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.05)
        running -= 1
        done += 1

    for i in range(40):
        await publish_node(site.nats, f"n{i}")
    async with consuming(site, handle, in_flight=8):
        await until(lambda: done == 40)
        await settled(site)
    assert 4 <= peak <= 8


async def test_work_longer_than_the_servers_patience_is_not_delivered_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.bus.streams.ACK_WAIT_SECONDS", 1)
    monkeypatch.setattr(consume_module, "PROGRESS_SECONDS", 0.3)
    calls = 0

    async def handle(_: bus.Delivery) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(2.5)

    async with consuming(site, handle):
        await publish_node(site.nats)
        await until(lambda: calls > 0)
        await settled(site)
    info = await (await site.nats._links.up()).api("CONSUMER.INFO.TRAIL.test")
    assert calls == 1
    assert info["delivered"]["consumer_seq"] == 1  # the server never lost patience


@pytest.mark.parametrize(
    ("headers", "data", "says"),
    [
        pytest.param({"ce-type": "dev.nodetrail.EndpointObserved.v1"}, b"\xff{", "EndpointObserved", id="no JSON"),
        pytest.param({"ce-type": "dev.nodetrail.EndpointObserved.v1"}, b'{"source":7}', "source", id="wrong type"),
        pytest.param({"ce-type": "dev.nodetrail.Martian.v9"}, b"{}", "Martian.v9", id="unknown event"),
        pytest.param(None, b"hello", "not known", id="no headers"),
        pytest.param({"ce-type": "dev.nodetrail.DeadLetter.v1"}, b"[" * 60_000, "DeadLetter", id="deep"),
    ],
)
async def test_what_cannot_be_decoded_is_set_aside_and_the_rest_goes_on(
    site: Site, raw: bare.NATS, headers: dict[str, str] | None, data: bytes, says: str
) -> None:
    seen: list[bus.Delivery] = []
    async with consuming(site, seen.append):
        await raw.jetstream().publish("nodetrail.observed.node.bad", data, headers=headers)
        await publish_node(site.nats, "good")
        await until(lambda: len(seen) == 1)
        await settled(site)
    letter = await dead_letters(site)
    assert letter is not None
    assert says in letter.error
    assert (letter.subject, letter.stream, letter.sequence) == ("nodetrail.observed.node.bad", "TRAIL", 1)
    assert (letter.consumer, letter.data_bytes) == ("test", len(data))
    assert letter.data == data[:4096].decode("utf-8", "backslashreplace")


async def test_bytes_that_are_no_text_and_forged_statuses_end_nothing(site: Site, server: NatsServer) -> None:
    """What a hostile publisher can put on the wire: names that are not UTF-8, and the looks of a server's status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n')
    for subject, block in (
        (b"nodetrail.observed.node.\xff\xfe", b"NATS/1.0\r\nce-type: \xff\r\n\r\n"),
        (b"nodetrail.observed.node.a", b"NATS/1.0 404 No Messages\r\n\r\n"),
        (b"nodetrail.observed.node.b", b"NATS/1.0 409 Consumer Deleted\r\n\r\n"),
        (b"nodetrail.observed.node.c", b"NATS/1.0 \xff\xff\xff\r\n\r\n"),
        (b"nodetrail.observed.node.d", b"NATS/1.0\r\nStatus: 404\r\nDescription: No Messages\r\n\r\n"),
    ):
        writer.write(b"HPUB %s %d %d\r\n%s{}\r\n" % (subject, len(block), len(block) + 2, block))
    writer.write(b"PING\r\n")
    await writer.drain()
    while await reader.readline() != b"PONG\r\n":
        pass
    seen: list[bus.Delivery] = []
    async with consuming(site, seen.append):
        await publish_node(site.nats, "good")
        await until(lambda: len(seen) == 1)
        await settled(site)
    found = [d async for d in site.nats.newest(bus.TRAIL, "nodetrail.observed.>")]
    assert [d.subject for d in found] == ["nodetrail.observed.node.good"]
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("at_once", [True, False], ids=["raised at once", "raised when awaited"])
async def test_poison_is_set_aside_after_five_failures(site: Site, *, at_once: bool) -> None:
    calls: Counter[str] = Counter()

    def handle(delivery: bus.Delivery) -> Awaitable[None] | None:
        calls[delivery.subject[-1]] += 1
        if not at_once:
            return fail(delivery)
        blow(delivery)
        return None

    async def fail(delivery: bus.Delivery) -> None:
        blow(delivery)

    def blow(delivery: bus.Delivery) -> None:
        if delivery.subject.endswith("p"):
            raise ValueError("no way")

    async with consuming(site, handle, retry_seconds=0.01):
        await publish_node(site.nats, "p")
        await publish_node(site.nats, "g")
        await until(lambda: calls["p"] == 5)
        await settled(site)
    assert calls == {"p": 5, "g": 1}
    letter = await dead_letters(site)
    assert letter is not None
    assert letter.error == "failed 5 times: ValueError: no way"
    assert letter.deliveries == 5


async def test_later_never_counts_as_a_failure(site: Site) -> None:
    """Later, failure, later, failure...: twenty deliveries, four failures, and it is handled in the end."""
    calls = 0

    async def handle(_: bus.Delivery) -> None:
        nonlocal calls
        calls += 1
        if calls <= 16:
            raise bus.Later(0.01)
        if calls <= 20:
            raise ValueError("not yet")

    async with consuming(site, handle, retry_seconds=0.01):
        await publish_node(site.nats)
        await until(lambda: calls == 21)
        await settled(site)
    assert await dead_letters(site) is None


async def test_later_waits_as_long_as_it_says(site: Site) -> None:
    times: list[float] = []

    def handle(_: bus.Delivery) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            raise bus.Later(0.7)

    async with consuming(site, handle):
        await publish_node(site.nats)
        await until(lambda: len(times) == 2)
    assert 0.6 < times[1] - times[0] < 3


async def test_a_closed_gate_leaves_the_backlog_in_the_stream(site: Site) -> None:
    opened = asyncio.Event()
    seen: list[bus.Delivery] = []
    for i in range(5):
        await publish_node(site.nats, f"n{i}")
    async with consuming(site, seen.append, gate=opened.wait):
        await asyncio.sleep(0.5)
        assert await state(site) == (5, 0)
        opened.set()
        await until(lambda: len(seen) == 5)


async def test_what_is_in_work_at_the_end_is_given_back_at_once(site: Site) -> None:
    started = asyncio.Event()

    async def handle(_: bus.Delivery) -> None:
        started.set()
        await asyncio.Event().wait()

    seen: list[bus.Delivery] = []
    for i in range(30):
        await publish_node(site.nats, f"n{i}")
    async with consuming(site, handle):
        await started.wait()  # some are in work, and others on their way
    async with consuming(site, seen.append, make=False):
        await until(lambda: len(seen) == 30, seconds=5)  # well before the server's own patience ends
    assert seen[0].deliveries == 2


async def test_headers_that_cannot_be_read_are_none() -> None:
    client = CarefulClient(needs_tls=False, on_end=lambda: None)
    for block in (b"NATS/1.0 \xff\xff\xff\r\n\r\n", b"NATS/1.0", b"NATS/1.0 404 \xff\r\n\r\n"):
        assert await client._process_headers(block) == {}
    assert await client._process_headers(b"NATS/1.0\r\nce-type: x\r\n\r\n") == {"ce-type": "x"}


async def test_it_waits_for_a_consumer_that_others_make_and_says_so(site: Site) -> None:
    seen: list[bus.Delivery] = []
    await publish_node(site.nats)
    async with consuming(site, seen.append, make=False):
        await until(lambda: "test" in site.health.waits)
        assert "the status writer makes it" in site.health.waits["test"]
        await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.observed.>"])
        await until(lambda: len(seen) == 1)
        assert site.health.ready


async def test_a_consumer_deleted_meanwhile_is_waited_for_and_taken_up_again(site: Site) -> None:
    seen: list[bus.Delivery] = []
    async with consuming(site, seen.append):
        await publish_node(site.nats, "n1")
        await until(lambda: len(seen) == 1)
        await settled(site)
        await (await site.nats._links.up()).api("CONSUMER.DELETE.TRAIL.test")
        await until(lambda: "test" in site.health.waits)
        await publish_node(site.nats, "n2")
        await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.observed.>"])
        await until(lambda: any(d.subject.endswith("n2") for d in seen))
        assert site.health.ready


async def test_several_replicas_share_one_consumer(connect: Connect, site: Site) -> None:
    first: list[bus.Delivery] = []
    second: list[bus.Delivery] = []
    async with connect("other") as other, consuming(site, first.append), consuming(other, second.append, make=False):
        for i in range(60):
            await publish_node(site.nats, f"n{i}")
        await until(lambda: len(first) + len(second) >= 60)
        await settled(site)
    assert len({d.sequence for d in first + second}) == 60


async def test_many_starts_leave_one_consumer(site: Site) -> None:
    for _ in range(30):
        await site.nats.ensure_streams()
        async with consuming(site, lambda _: None):
            pass
    info = await (await site.nats._links.up()).api("STREAM.INFO.TRAIL")
    assert info["state"]["consumer_count"] == 1


async def test_a_trace_is_handed_on_to_what_is_published_in_turn(site: Site, raw: bare.NATS) -> None:
    tap = await tapped(raw, "nodetrail.>")

    async def handle(delivery: bus.Delivery) -> None:
        if delivery.subject.startswith("nodetrail.observed"):
            await site.nats.publish(delivery.event, subject=subjects.decided("refused", "a", "b"), message_id="d")

    async with consuming(site, handle):
        await publish_node(site.nats)
        first, second = [(await tap.next_msg(timeout=5)).headers["traceparent"] for _ in range(2)]
    assert first.split("-")[1] == second.split("-")[1]
    assert first != second
