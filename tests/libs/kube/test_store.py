"""The store keeps a true copy, whatever the API server does to its list and watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from libs import kube
from tests.libs.kube.server import Server, at, event, listing, node, serving, status, stream

QUICK = kube.Timing(watch=5.0, idle=1.0, short=0.3, pause_first=0.05, pause_limit=0.2)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Said:
    """What the store told its health."""

    def __init__(self) -> None:
        self.now = ""
        self.reasons: list[str] = []

    def waiting(self, part: str, why: str) -> None:
        assert part == "kubernetes nodes"
        self.now = why
        self.reasons.append(why)

    def fine(self, part: str) -> None:
        assert part == "kubernetes nodes"
        self.now = ""


class Watched:
    """A running store and all that it reported."""

    def __init__(self, server: Server, store: kube.Store[kube.Node], task: asyncio.Task[None]) -> None:
        self.server = server
        self.store = store
        self.task = task
        self.changes: list[tuple[str, str]] = []
        self.health = Said()

    def names(self) -> set[str]:
        return {name for _, name in self.store.items}

    async def until(self, holds: Callable[[], bool], seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{self.changes=} {self.health.reasons=} {len(self.server.requests)=}"
            assert not self.task.done(), self.task
            await asyncio.sleep(0.005)


@asynccontextmanager
async def watched(folder: Path, answer: Handler, timing: kube.Timing = QUICK) -> AsyncIterator[Watched]:
    async with serving(folder, answer) as server, kube.connect(server.kubeconfig, agent="test") as api:
        seen: Watched

        def on_change(old: kube.Node | None, new: kube.Node | None) -> None:
            what = "+" if old is None else "-" if new is None else "~"
            item = new or old
            assert item is not None
            assert (item is new) == (store.items.get(("", item.metadata.name)) is item)
            seen.changes.append((what, item.metadata.name))

        said = Said()
        store = kube.Store(api, kube.NODES, on_change=on_change, health=said, timing=timing)
        async with asyncio.TaskGroup() as group:
            seen = Watched(server, store, group.create_task(store.run()))
            seen.health = said
            yield seen
            seen.task.cancel()


def scripted(lists: list[Handler], watches: list[Handler]) -> Handler:
    """Answer each list and each watch with the next of its script; the last one again and again."""

    async def answer(request: web.Request) -> web.StreamResponse:
        script = watches if "watch" in request.query else lists
        made = script.pop(0) if len(script) > 1 else script[0]
        return await made(request)

    return answer


def listed(version: int, *items: dict[str, Any], continuation: str = "") -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return listing(version, *items, continuation=continuation)

    return answer


def failing(code: int, reason: str, headers: dict[str, str] | None = None) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return status(code, reason, headers=headers)

    return answer


def streaming(*parts: bytes, then: str = "end") -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, *parts, then=then)

    return answer


HANG = streaming(then="hang")


async def test_lists_then_follows(tmp_path: Path) -> None:
    changes = streaming(
        event("MODIFIED", at("a", 11, "10.0.0.2")),
        event("ADDED", at("c", 12)),
        event("DELETED", at("b", 13)),
        then="hang",
    )
    async with watched(tmp_path, scripted([listed(10, at("a", 5, "10.0.0.1"), at("b", 6))], [changes])) as seen:
        await seen.store.synced()
        assert seen.changes[:2] == [("+", "a"), ("+", "b")]
        await seen.until(lambda: seen.names() == {"a", "c"})
        assert seen.changes[2:] == [("~", "a"), ("+", "c"), ("-", "b")]
        assert seen.store.items["", "a"].addresses() == ("10.0.0.2",)
        assert seen.store.stale_seconds < 1
        [watch] = seen.server.watches
        assert watch.query["resourceVersion"] == "10"
        assert 5 <= int(watch.query["timeoutSeconds"]) <= 7
        assert watch.query["allowWatchBookmarks"] == "true"


async def test_a_long_collection_comes_in_pages(tmp_path: Path) -> None:
    pages = [listed(10, at("a", 1), continuation="more"), listed(10, at("b", 2))]
    async with watched(tmp_path, scripted(pages, [HANG])) as seen:
        await seen.store.synced()
        assert seen.names() == {"a", "b"}
        assert [request.query.get("continue") for request in seen.server.lists] == [None, "more"]
        assert {request.query["limit"] for request in seen.server.lists} == {"500"}


async def test_goes_on_from_the_last_change(tmp_path: Path) -> None:
    first = streaming(event("ADDED", at("b", 15)), event("DELETED", at("b", 17)))
    async with watched(tmp_path, scripted([listed(10)], [first, HANG])) as seen:
        await seen.until(lambda: len(seen.server.watches) == 2)
        assert [request.query["resourceVersion"] for request in seen.server.watches] == ["10", "17"]


async def test_goes_on_from_the_last_version_bookmarks_included(tmp_path: Path) -> None:
    first = streaming(event("ADDED", at("b", 15)), event("BOOKMARK", node("", 40)))
    async with watched(tmp_path, scripted([listed(10, at("a", 5))], [first, HANG])) as seen:
        await seen.until(lambda: len(seen.server.watches) == 2)
        assert [request.query["resourceVersion"] for request in seen.server.watches] == ["10", "40"]
        assert len(seen.server.lists) == 1
        assert seen.health.reasons == []  # a normal end is no trouble


async def test_a_server_that_ends_every_watch_at_once_is_asked_in_peace(tmp_path: Path) -> None:
    async with watched(tmp_path, scripted([listed(10)], [streaming()])) as seen:
        await seen.store.synced()
        await asyncio.sleep(1.0)
        # Pauses of 0.05, 0.1, 0.2, 0.2... less a fifth: some seven tries in a second, not hundreds.
        assert 3 <= len(seen.server.watches) <= 10
        assert len(seen.server.lists) == 1


async def test_a_server_that_sends_one_event_and_ends_is_asked_in_peace_too(tmp_path: Path) -> None:
    version = 10

    async def one_more(request: web.Request) -> web.StreamResponse:
        nonlocal version
        version += 1
        return await stream(request, event("MODIFIED", at("a", version)))

    async with watched(tmp_path, scripted([listed(10, at("a", 5))], [one_more])) as seen:
        await asyncio.sleep(1.0)
        assert 10 <= len(seen.server.watches) <= 30  # always the first, shortest pause, but a pause


IMPATIENT = kube.Timing(watch=60.0, idle=0.2, short=0.1, pause_first=0.05, pause_limit=0.1)


async def test_a_silent_watch_is_renewed_and_a_second_one_leads_to_a_list(tmp_path: Path) -> None:
    lists = [listed(10, at("a", 5)), listed(20, at("a", 5), at("b", 15))]
    async with watched(tmp_path, scripted(lists, [HANG]), IMPATIENT) as seen:
        await seen.until(lambda: seen.names() == {"a", "b"})
        assert [request.query["resourceVersion"] for request in seen.server.watches[:2]] == ["10", "10"]
        assert seen.health.reasons == []  # a quiet collection is no trouble


async def test_a_bookmark_breaks_the_silence(tmp_path: Path) -> None:
    bookmark = streaming(event("BOOKMARK", node("", 11)), then="hang")
    async with watched(tmp_path, scripted([listed(10)], [bookmark]), IMPATIENT) as seen:
        await seen.until(lambda: len(seen.server.watches) == 5)
        assert len(seen.server.lists) == 1


async def test_a_mute_server_is_left_and_asked_again(tmp_path: Path) -> None:
    async def mute(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    script = scripted([listed(10, at("a", 5))], [mute, streaming(event("ADDED", at("b", 11)), then="hang")])
    async with watched(tmp_path, script, IMPATIENT) as seen:
        await seen.until(lambda: seen.names() == {"a", "b"})
        assert "no answer in time" in seen.health.reasons[0]
        assert [request.query["resourceVersion"] for request in seen.server.watches[:2]] == ["10", "10"]
        assert len(seen.server.lists) == 1


EXPIRED_EVENT = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(failing(410, "Expired"), id="as HTTP status"),
        pytest.param(streaming(EXPIRED_EVENT), id="inside the stream"),
        pytest.param(streaming(EXPIRED_EVENT, then="hang"), id="inside a stream that stays open"),
    ],
)
async def test_410_means_one_list_and_only_real_changes(tmp_path: Path, gone: Handler) -> None:
    before = listed(10, at("same", 1), at("changed", 2, "10.0.0.1"), at("deleted", 3), at("replaced", 4, uid="one"))
    after = listed(90, at("same", 1), at("changed", 80, "10.0.0.2"), at("replaced", 81, uid="two"), at("new", 82))
    async with watched(tmp_path, scripted([before, after], [gone, HANG])) as seen:
        await seen.until(lambda: len(seen.server.watches) == 2)
        assert seen.changes[:4] == [("+", "same"), ("+", "changed"), ("+", "deleted"), ("+", "replaced")]
        assert sorted(seen.changes[4:]) == [
            ("+", "new"), ("+", "replaced"), ("-", "deleted"), ("-", "replaced"), ("~", "changed"),
        ]  # fmt: skip
        assert len(seen.server.lists) == 2
        assert seen.server.watches[1].query["resourceVersion"] == "90"
        assert seen.health.reasons == []


async def test_410_for_ever_is_no_tight_loop(tmp_path: Path) -> None:
    async with watched(tmp_path, scripted([listed(10)], [failing(410, "Expired")])) as seen:
        await asyncio.sleep(1.0)
        assert 3 <= len(seen.server.lists) <= 10


async def test_a_list_that_expires_between_pages_is_begun_anew(tmp_path: Path) -> None:
    pages = [listed(10, at("a", 1), continuation="more"), failing(410, "Expired"), listed(20, at("b", 2))]
    async with watched(tmp_path, scripted(pages, [HANG])) as seen:
        await seen.store.synced()
        assert seen.names() == {"b"}
        assert seen.server.lists[2].query.get("continue") is None


async def test_replayed_events_are_no_changes(tmp_path: Path) -> None:
    replay = streaming(event("ADDED", at("a", 5)), event("MODIFIED", at("a", 5)), event("ADDED", at("b", 11)))
    async with watched(tmp_path, scripted([listed(10, at("a", 5))], [replay, replay, HANG])) as seen:
        await seen.until(lambda: len(seen.server.watches) == 3)
        assert seen.changes == [("+", "a"), ("+", "b")]


async def test_a_stream_cut_in_the_middle_of_a_line_loses_nothing(tmp_path: Path) -> None:
    line = event("ADDED", at("b", 11))
    cut = streaming(line[:20], then="cut")
    async with watched(tmp_path, scripted([listed(10, at("a", 5))], [cut, streaming(line, then="hang")])) as seen:
        await seen.until(lambda: seen.names() == {"a", "b"})
        assert len(seen.server.lists) == 1


async def test_a_line_of_700_kb_in_pieces_is_read(tmp_path: Path) -> None:
    big = at("big", 11, "10.0.0.1")
    big["metadata"]["annotations"] = {"filler": "x" * 700_000}
    line = event("ADDED", big)
    pieces = [line[start : start + 10_000] for start in range(0, len(line), 10_000)]
    async with watched(tmp_path, scripted([listed(10)], [streaming(*pieces, then="hang")])) as seen:
        await seen.until(lambda: seen.names() == {"big"})


async def test_an_endless_line_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from libs.kube import transport

    monkeypatch.setattr(transport, "LINE_BYTES_MAX", 100_000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 10_000)

    async with watched(tmp_path, scripted([listed(10)], [endless, HANG])) as seen:
        await seen.until(lambda: len(seen.server.watches) == 2)
        assert "a line of over 100000 bytes" in seen.health.reasons[0]


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>sorry</html>\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":7}\n',
        b'{"type":"ADDED","object":{"kind":"Node"}}\n',
        b"\xff\xfe\xfd\n",
        b"[" * 5000 + b"\n",
        event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"}),
    ],
)
async def test_garbage_leads_to_a_fresh_list(tmp_path: Path, garbage: bytes) -> None:
    lists = [listed(10, at("a", 5)), listed(20, at("a", 5), at("b", 15))]
    async with watched(tmp_path, scripted(lists, [streaming(garbage), HANG])) as seen:
        await seen.until(lambda: seen.names() == {"a", "b"})
        assert len(seen.health.reasons) == 1
        await seen.until(lambda: seen.health.now == "")


async def test_kinds_of_events_from_the_future_are_passed_over(tmp_path: Path) -> None:
    changes = streaming(event("PONDERED", at("x", 11)), event("ADDED", at("b", 12)), then="hang")
    async with watched(tmp_path, scripted([listed(10)], [changes])) as seen:
        await seen.until(lambda: seen.names() == {"b"})
        assert seen.health.reasons == []


async def test_an_object_of_a_strange_shape_costs_that_object_only(tmp_path: Path) -> None:
    odd = node("odd", 6, status={"addresses": "none"})
    changes = streaming(
        event("MODIFIED", node("good", 11, status={"addresses": 3})),
        event("MODIFIED", odd | node("odd", 12)),
        event("ADDED", at("other", 13)),
        then="hang",
    )
    with structlog.testing.capture_logs() as logs:
        async with watched(tmp_path, scripted([listed(10, odd, at("good", 5, "10.0.0.1"))], [changes])) as seen:
            await seen.until(lambda: seen.names() == {"good", "other"})
            # What was readable stays as it was: to its followers it is not deleted.
            assert seen.store.items["", "good"].metadata.resource_version == "5"
            assert seen.changes == [("+", "good"), ("+", "other")]
            assert seen.store.oddities.keys() == {("", "odd"), ("", "good")}
    told = [line["object"] for line in logs if line["event"] == "object not readable"]
    assert told == ["odd", "good"]


async def test_a_strange_object_may_become_readable_or_go(tmp_path: Path) -> None:
    odd, odder = node("odd", 6, status=7), node("odder", 7, status=7)
    changes = streaming(event("MODIFIED", at("odd", 11)), event("DELETED", odder), then="hang")
    async with watched(tmp_path, scripted([listed(10, odd, odder)], [changes])) as seen:
        await seen.until(lambda: seen.names() == {"odd"} and not seen.store.oddities)


async def test_a_strange_object_may_go_during_an_outage(tmp_path: Path) -> None:
    lists = [listed(10, node("odd", 6, status=7)), listed(20)]
    async with watched(tmp_path, scripted(lists, [failing(410, "Expired"), HANG])) as seen:
        await seen.until(lambda: seen.store.oddities.keys() == {("", "odd")})
        await seen.until(lambda: not seen.store.oddities)


async def test_a_server_that_is_away_is_waited_for_and_said_so(tmp_path: Path) -> None:
    lists = [failing(503, "ServiceUnavailable"), failing(403, "Forbidden"), listed(10, at("a", 5))]
    async with watched(tmp_path, scripted(lists, [HANG])) as seen:
        assert seen.store.stale_seconds == float("inf")
        await seen.store.synced()
        assert seen.health.reasons == ["list nodes: ServiceUnavailable", "list nodes: Forbidden"]
        await seen.until(lambda: seen.health.now == "")


async def test_a_server_that_asks_for_a_pause_gets_it(tmp_path: Path) -> None:
    timing = kube.Timing(pause_first=0.01, pause_limit=1.0)
    lists = [failing(429, "TooManyRequests", headers={"Retry-After": "7"}), listed(10)]
    async with watched(tmp_path, scripted(lists, [HANG]), timing) as seen:
        started = time.monotonic()
        await seen.store.synced()
        assert 0.9 < time.monotonic() - started < 3  # as long as it asked, but not beyond our limit


async def test_nothing_listens(tmp_path: Path) -> None:
    async with watched(tmp_path, scripted([listed(10)], [HANG])) as seen:
        port = seen.server.port
    (tmp_path / "kubeconfig").write_text((tmp_path / "kubeconfig").read_text().replace(str(port), "1"))
    said = Said()
    async with kube.connect(str(tmp_path / "kubeconfig"), agent="test") as api:
        store = kube.Store(api, kube.NODES, health=said, timing=QUICK)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await store.run()
    assert 2 <= len(said.reasons) <= 10
    assert "list nodes: Cannot connect to host 127.0.0.1:1" in said.reasons[0]


async def test_lists_again_from_time_to_time(tmp_path: Path) -> None:
    timing = kube.Timing(short=0.01, relist=0.1, pause_first=0.05, pause_limit=0.05)
    lists = [listed(10, at("a", 5)), listed(20, at("b", 15))]  # of which no watch ever told
    async with watched(tmp_path, scripted(lists, [streaming()]), timing) as seen:
        await seen.until(lambda: seen.changes == [("+", "a"), ("+", "b"), ("-", "a")])


async def test_a_fault_of_the_callback_ends_the_store(tmp_path: Path) -> None:
    def on_change(old: kube.Node | None, new: kube.Node | None) -> None:
        raise RuntimeError("a fault of ours")

    async with (
        serving(tmp_path, scripted([listed(10, at("a", 5))], [HANG])) as server,
        kube.connect(server.kubeconfig, agent="test") as api,
    ):
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await kube.Store(api, kube.NODES, on_change=on_change).run()


async def test_one_namespace_only(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, scripted([listed(10)], [HANG])) as server,
        kube.connect(server.kubeconfig, agent="test") as api,
    ):
        store = kube.Store(api, kube.SECRETS, "nodetrail")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.run())
            await store.synced()
            task.cancel()
        assert server.requests[0].path == "/api/v1/namespaces/nodetrail/secrets"
