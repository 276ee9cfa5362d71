import asyncio
import contextlib
from collections import Counter

import pytest

from libs import bus
from libs.bus import keep
from libs.embedded.nats_server import NatsServer
from libs.events import subjects
from tests.libs.bus.conftest import Connect, Site, consuming, speaking, spec, until
from tests.libs.bus.sample import node_event, publish_node


async def test_a_killed_server_loses_nothing_and_all_goes_on(site: Site, server: NatsServer) -> None:
    seen: Counter[str] = Counter()
    sent: list[str] = []
    ending = asyncio.Event()

    async def publisher(number: int) -> None:
        turn = 0
        while not ending.is_set():
            name = f"p{number}-{turn}"
            await publish_node(site.nats, name)
            sent.append(subjects.observed_node(name))
            turn += 1

    async def slow(delivery: bus.Delivery) -> None:
        await asyncio.sleep(0.002)
        seen[delivery.subject] += 1

    async with consuming(site, slow):
        await publish_node(site.nats, "first")
        sent.append(subjects.observed_node("first"))
        await until(lambda: len(seen) == 1)
        tasks = len(asyncio.all_tasks())
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(publisher(number))
            for _ in range(3):
                before = len(seen)
                await until(lambda: len(seen) > before + 50)  # noqa: B023 - called within the turn
                server.process.kill()
                await until(lambda: not site.nats.connected)
                await asyncio.to_thread(server.start)
                began = asyncio.get_running_loop().time()
                await until(lambda: len(seen) > before + 80)  # noqa: B023 - called within the turn
                assert asyncio.get_running_loop().time() - began < 5  # no request sits out its time-out
            ending.set()
        await until(lambda: set(seen) >= set(sent))
        await until(lambda: len(asyncio.all_tasks()) <= tasks, what="no task is left of a lost connection")
    info = await (await site.nats._links.up()).api("STREAM.INFO.TRAIL")
    assert info["state"]["messages"] == len(seen) == len(sent)  # nothing lost, nothing twice in the stream


async def test_a_lost_stream_is_made_anew_and_consumed_again(connect: Connect, site: Site, server: NatsServer) -> None:
    seen: list[str] = []
    async with (
        connect("writer") as writer,
        consuming(site, lambda d: seen.append(d.message_id), make=False),
    ):
        keeping = asyncio.ensure_future(writer.nats.keep_streams([spec("test")]))
        await publish_node(site.nats, "before")
        await until(lambda: len(seen) == 1)
        server.process.kill()
        for entry in (server.folder).rglob("TRAIL"):
            await asyncio.to_thread(_remove, entry)
        await asyncio.to_thread(server.start)
        await publish_node(site.nats, "after")
        await until(lambda: len(seen) == 2)
        assert writer.health.ready
        await until(lambda: site.health.ready)
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


async def test_a_stream_deleted_while_connected_is_made_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "KEEP_SECONDS", 0.2)
    seen: list[str] = []
    keeping = asyncio.ensure_future(site.nats.keep_streams([spec("test")]))
    async with consuming(site, lambda d: seen.append(d.message_id), make=False):
        await publish_node(site.nats, "before")
        await until(lambda: len(seen) == 1)
        await (await site.nats._links.up()).api("STREAM.DELETE.TRAIL")
        await publish_node(site.nats, "after")
        await until(lambda: len(seen) == 2)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping


async def test_it_starts_before_the_server_and_says_what_it_waits_for(connect: Connect, server: NatsServer) -> None:
    server.process.kill()
    async with connect() as site:
        publishing = asyncio.ensure_future(
            site.nats.publish(node_event(), subject=subjects.observed_node("n1"), message_id="a")
        )
        await until(
            lambda: (
                "refused" in site.health.waits.get("nats", "").lower() or "Connect" in site.health.waits.get("nats", "")
            )
        )
        assert f"127.0.0.1:{server.port}" in site.health.waits["nats"]
        assert not site.nats.connected
        await asyncio.to_thread(server.start)
        await site.nats.ensure_streams()
        await publishing
        assert site.nats.connected


async def test_a_silent_server_is_given_up(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half-open connection: the peer takes our bytes and never answers. Our pings notice, nothing hangs."""
    monkeypatch.setattr("libs.bus.link.PING_SECONDS", 0.2)
    monkeypatch.setattr("libs.bus.link.PONG_SECONDS", 0.2)
    connections = 0

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(ConnectionError):
            writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"headers":true}\r\n')
            await reader.readline()
            await reader.readline()
            writer.write(b"PONG\r\n")
            while await reader.read(65536):
                pass

    async with speaking(mute) as port, connect(nats_url=f"nats://127.0.0.1:{port}") as site:
        await until(lambda: connections >= 2)
        reading = asyncio.ensure_future(site.nats.last(bus.TRAIL, "x"))
        await until(lambda: connections >= 3)
        reading.cancel()


def _remove(folder: object) -> None:
    import shutil

    shutil.rmtree(str(folder))
