import aiohttp
import structlog
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from libs.runtime.health import Health
from libs.runtime.http import address_of, bind, pages, serving


def test_begins_and_ends_are_said_once() -> None:
    health = Health()
    with structlog.testing.capture_logs() as lines:
        health.fine("nats")
        health.waiting("nats", "connecting")
        health.waiting("nats", "refused")
        health.waiting("nats", "refused")
        health.fine("nats")
        health.fine("nats")
    assert [(line["event"], line["waits"]) for line in lines] == [("waiting", "nats"), ("waiting no longer", "nats")]


async def test_readyz_lists_what_waits_and_why() -> None:
    registry = CollectorRegistry()
    health = Health(registry)
    listener = bind("127.0.0.1", 0)
    url = f"http://{address_of(listener)}"

    async with serving(pages(health, registry), listener), aiohttp.ClientSession(url) as client:

        async def get(path: str) -> tuple[int, str]:
            async with client.get(path) as answer:
                return answer.status, await answer.text()

        assert await get("/readyz") == (200, "ok\n")
        health.waiting("nats", "connecting to 127.0.0.1:4222")
        health.waiting("api", "refused")
        assert await get("/readyz") == (503, "api: refused\nnats: connecting to 127.0.0.1:4222\n")
        assert await get("/healthz") == (200, "ok\n")
        assert 'nodetrail_part_waiting{part="nats"} 1.0' in (await get("/metrics"))[1]
        assert (await get("/"))[0] == 404
        health.fine("nats")
        health.fine("api")
        assert await get("/readyz") == (200, "ok\n")
        assert 'nodetrail_part_waiting{part="nats"} 0.0' in (await get("/metrics"))[1]


async def test_a_service_can_have_pages_behind_the_three() -> None:
    async def whoami(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"page {scope['path']}")(scope, receive, send)

    health = Health()
    listener = bind("127.0.0.1", 0)
    url = f"http://{address_of(listener)}"
    async with serving(pages(health, CollectorRegistry(), whoami), listener), aiohttp.ClientSession(url) as client:
        for path, text in (("/readyz", "ok\n"), ("/nodes/a", "page /nodes/a"), ("/", "page /")):
            async with client.get(path) as answer:
                assert await answer.text() == text
