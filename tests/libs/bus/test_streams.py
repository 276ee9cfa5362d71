import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs import bus
from libs.bus import streams
from libs.bus.link import Link
from libs.embedded.nats_server import NatsServer
from libs.embedded.ports import LOOPBACK
from libs.events import subjects
from tests.libs.bus.conftest import Connect, Site, consuming, spec, until
from tests.libs.bus.sample import publish_node


async def config(site: Site, stream: str) -> dict[str, Any]:
    info = await (await site.nats._links.up()).api(f"STREAM.INFO.{stream}")
    found: dict[str, Any] = info["config"]
    return found


async def test_the_streams_have_their_shape(site: Site) -> None:
    trail, sightings = await config(site, bus.TRAIL), await config(site, bus.SIGHTINGS)
    day, hour = 86_400 * 10**9, 3_600 * 10**9
    assert trail["subjects"] == list(subjects.TRAIL_SUBJECTS)
    assert (trail["max_age"], trail["max_msgs_per_subject"]) == (30 * day, -1)
    assert sightings["subjects"] == list(subjects.SIGHTINGS_SUBJECTS)
    assert (sightings["max_age"], sightings["max_msgs_per_subject"]) == (hour, 1)
    for stream in (trail, sightings):
        assert stream["storage"] == "file"
        assert (stream["discard"], stream["retention"]) == ("old", "limits")
        assert stream["max_msg_size"] == 65536
        assert stream["duplicate_window"] == 120 * 10**9
        assert stream["allow_direct"] is True
        assert stream["num_replicas"] == 1
        assert stream["max_bytes"] > 0


async def test_no_stream_captures_requests(site: Site) -> None:
    captured = (await config(site, bus.TRAIL))["subjects"] + (await config(site, bus.SIGHTINGS))["subjects"]
    assert not [subject for subject in captured if subject.startswith(("nodetrail.api", "nodetrail.>"))]


async def test_what_differs_is_mended_and_what_is_the_operators_is_kept(site: Site) -> None:
    link = await site.nats._links.up()
    has = await config(site, bus.TRAIL)
    changed = has | {"max_age": 10**12, "max_msg_size": -1, "max_bytes": 100 * 2**20, "description": "ours"}
    await link.api("STREAM.UPDATE.TRAIL", changed)
    await publish_node(site.nats)
    await site.nats.ensure_streams()
    mended = await config(site, bus.TRAIL)
    assert (mended["max_age"], mended["max_msg_size"]) == (has["max_age"], 65536)
    assert (mended["max_bytes"], mended["description"]) == (100 * 2**20, "ours")
    assert await site.nats.last(bus.TRAIL, subjects.observed_node("n1")) is not None


async def test_what_cannot_be_mended_is_named(connect: Connect) -> None:
    async with connect() as site:
        link = await site.nats._links.up()
        await link.api("STREAM.CREATE.TRAIL", {"name": "TRAIL", "subjects": ["other"], "storage": "memory"})
        with pytest.raises(bus.WrongShape, match=r"stream TRAIL has .*'storage': 'memory'.* needs .*'storage': 'file'"):
            await site.nats.ensure_streams()
        keeping = asyncio.ensure_future(site.nats.keep_streams([]))
        await until(lambda: "stream TRAIL has" in site.health.waits.get("streams", ""))
        await link.api("STREAM.DELETE.TRAIL")  # the operator acts, and all is well by itself
        await until(lambda: "streams" not in site.health.waits)
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


async def test_a_consumer_is_made_once_and_its_filter_can_change(site: Site) -> None:
    link = await site.nats._links.up()
    for filters in (["nodetrail.observed.node.>"], ["nodetrail.observed.node.>", "nodetrail.decided.>"]):
        for _ in range(2):
            await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=filters)
    info = await link.api("CONSUMER.INFO.TRAIL.test")
    assert info["config"]["filter_subjects"] == filters
    assert info["config"]["ack_policy"] == "explicit"
    assert info["config"]["max_deliver"] == -1
    assert info["config"].get("inactive_threshold", 0) == 0
    created = info["created"]
    await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=filters)
    assert (await link.api("CONSUMER.INFO.TRAIL.test"))["created"] == created


async def test_a_consumer_of_another_kind_is_named(site: Site) -> None:
    link = await site.nats._links.up()
    other = {"durable_name": "test", "deliver_policy": "new", "ack_policy": "none"}
    await link.api("CONSUMER.CREATE.TRAIL.test", {"stream_name": "TRAIL", "config": other, "action": ""})
    with pytest.raises(bus.WrongShape, match="consumer test of stream TRAIL"):
        await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.decided.>"])


async def test_messages_lost_on_disk_do_not_silence_a_consumer(site: Site, server: NatsServer) -> None:
    """After a power loss the stream may remember less than the consumer."""
    seen: list[str] = []
    await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.observed.>"])
    async with consuming(site, lambda d: seen.append(d.message_id), make=False):
        for i in range(50):
            await publish_node(site.nats, f"n{i}")
        await until(lambda: len(seen) == 50)
        await asyncio.to_thread(server.stop)
        for block in server.folder.rglob("streams/TRAIL/msgs/*"):
            block.unlink()
        await asyncio.to_thread(server.start)
        await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.observed.>"])
        expected = await publish_node(site.nats, "later")
        await until(lambda: expected in seen)


class Scripted(Link):
    """Answers as a server would whose consumer has run ahead, which this server mends by itself when it starts."""

    def __init__(self, *, reached: int, last: int, config: dict[str, Any]) -> None:
        super().__init__()
        self.called: list[str] = []
        self._script: dict[str, dict[str, Any]] = {
            "CONSUMER.INFO.TRAIL.test": {
                "config": config,
                "delivered": {"stream_seq": reached},
                "ack_floor": {"stream_seq": reached},
            },
            "STREAM.INFO.TRAIL": {"state": {"last_seq": last}},
        }

    async def api(self, path: str, body: object = None) -> dict[str, Any]:
        self.called.append(path)
        return self._script.get(path, {})


@pytest.mark.parametrize(("reached", "ahead"), [(50, True), (49, False)])
async def test_a_consumer_ahead_of_its_stream_is_made_anew(site: Site, reached: int, *, ahead: bool) -> None:
    await site.nats.ensure_consumer(bus.TRAIL, "test", filter_subjects=["nodetrail.observed.>"])
    config = (await (await site.nats._links.up()).api("CONSUMER.INFO.TRAIL.test"))["config"]
    link = Scripted(reached=reached, last=49, config=config)
    await streams.ensure_consumer(link, spec("test"))
    made_anew = ["CONSUMER.DELETE.TRAIL.test", "CONSUMER.CREATE.TRAIL.test"]
    assert link.called[2:] == (made_anew if ahead else [])


async def test_a_small_disk_gets_a_smaller_stream(tmp_path: Path, connect: Connect) -> None:
    store = f'store_dir: "{tmp_path}/store", max_file_store: 700MB'
    small = NatsServer(tmp_path / "small", config=f"jetstream {{ {store} }}")
    small.start()
    try:
        async with connect(nats_url=small.url) as site:
            await site.nats.ensure_streams()
            assert streams.BYTES_MIN <= (await config(site, bus.TRAIL))["max_bytes"] < 700 * 2**20
    finally:
        small.process.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[NatsServer]]:
    routes = [tmp_path / f"s{i}" for i in range(3)]
    ports = _free_ports(3)
    urls = ", ".join(f"nats://{LOOPBACK}:{port}" for port in ports)
    servers = [
        NatsServer(
            folder,
            config=f'server_name: s{i}\ncluster {{ name: c, listen: "{LOOPBACK}:{ports[i]}", routes: [{urls}] }}',
        )
        for i, folder in enumerate(routes)
    ]
    for server in servers:
        server.spawn()
    for server in servers:
        server.wait_ready()
    yield servers
    for server in servers:
        server.process.kill()


async def test_three_servers_keep_three_copies(cluster: list[NatsServer], connect: Connect) -> None:
    async with connect(nats_url=",".join(server.url for server in cluster)) as site:
        async with asyncio.timeout(60):
            await site.nats.ensure_streams()
        assert (await config(site, bus.TRAIL))["num_replicas"] == 3
        seen: list[str] = []
        async with consuming(site, lambda d: seen.append(d.message_id)):
            await publish_node(site.nats, "n1")
            await until(lambda: len(seen) == 1)
            served = (await site.nats._links.up()).client.connected_url.port
            next(server for server in cluster if server.port == served).process.kill()
            await publish_node(site.nats, "n2")
            await until(lambda: len(set(seen)) == 2, seconds=40)


def _free_ports(count: int) -> list[int]:
    import socket

    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in sockets]
