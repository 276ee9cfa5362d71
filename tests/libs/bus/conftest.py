"""A real nats-server per test, and a bus on it with the streams made."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import nats as bare
import pytest

from libs import bus, runtime
from libs.bus import ConsumerSpec
from libs.embedded.nats_server import NatsServer

WAIT_SECONDS = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    nats_server = NatsServer(tmp_path / "nats")
    nats_server.start()
    yield nats_server
    nats_server.process.kill()


class Site:
    """A bus with what surrounds it."""

    def __init__(self, nats: bus.Bus, health: runtime.Health) -> None:
        self.nats = nats
        self.health = health


Connect = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
def connect(server: NatsServer) -> Connect:
    @asynccontextmanager
    async def connect(name: str = "tester", **settings: Any) -> AsyncIterator[Site]:
        health = runtime.Health()
        common = runtime.CommonSettings(**({"nats_url": server.url} | settings))
        async with bus.connect(common, name=name, health=health) as nats:
            yield Site(nats, health)

    return connect


@pytest.fixture
async def site(connect: Connect) -> AsyncIterator[Site]:
    async with connect() as site:
        await site.nats.ensure_streams()
        yield site


async def until(holds: Callable[[], bool], *, what: str = "it holds", seconds: float = WAIT_SECONDS) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")


@asynccontextmanager
async def speaking(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A server of our own on a port; every conversation has ended with the block."""
    talks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        try:
            await talk(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def tapped(client: bare.NATS, subject: str) -> Any:
    """A subscription that the server knows of: the client's PING may overtake it, a second one cannot."""
    tap = await client.subscribe(subject)
    await client.flush()
    await client.flush()
    return tap


@asynccontextmanager
async def consuming(
    site: Site,
    handle: bus.Handler,
    *,
    stream: str = bus.TRAIL,
    durable: str = "test",
    filter_subjects: Sequence[str] = ("nodetrail.observed.>",),
    make: bool = True,
    **options: Any,
) -> AsyncIterator[None]:
    if make:
        await site.nats.ensure_consumer(stream, durable, filter_subjects=filter_subjects)
    task = asyncio.get_running_loop().create_task(
        site.nats.consume(stream=stream, durable=durable, handle=handle, **options)
    )
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def spec(durable: str, stream: str = bus.TRAIL, *filters: str) -> ConsumerSpec:
    return ConsumerSpec(stream=stream, durable=durable, filter_subjects=filters or ("nodetrail.observed.>",))
