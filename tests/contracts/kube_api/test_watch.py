"""Watching: from a version on, what is sent and when it ends, and what happens to who comes too late."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.contracts.kube_api.client import Item, Machines


def told(events: list[Item]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def version(machines: Machines) -> str:
    listed = await machines.api.must("GET", machines.path)
    return str(listed.body["metadata"]["resourceVersion"])


async def test_a_watch_goes_on_from_a_version(machines: Machines) -> None:
    made = await machines.create("a")
    since = await version(machines)
    await machines.create("b")
    changed = await machines.merge({"spec": {"approved": True}}, "a")
    await machines.api.must("DELETE", f"{machines.path}/b")
    events = await machines.api.watch(machines.path, resourceVersion=since, until=3)
    assert told(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert events[1]["object"] == changed.body
    assert int(events[2]["object"]["metadata"]["resourceVersion"]) > int(changed.version)
    earlier = await machines.api.watch(machines.path, resourceVersion=made.version, until=3)
    assert earlier == events


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_is_there(machines: Machines, query: Item) -> None:
    await machines.create("b")
    await machines.create("a")
    events = await machines.api.watch(machines.path, until=2, **query)
    assert sorted(told(events)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_hears_of_what_happens_meanwhile(machines: Machines) -> None:
    since = await version(machines)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(machines.api.watch(machines.path, resourceVersion=since, until=2))
        await machines.create("a")
        await machines.status({"nodeName": "n"}, "a")
    assert told(watch.result()) == [("ADDED", "a"), ("MODIFIED", "a")]


async def test_a_watch_ends_in_time(machines: Machines) -> None:
    since = await version(machines)
    began = time.monotonic()
    assert await machines.api.watch(machines.path, resourceVersion=since, timeoutSeconds=1) == []
    assert 0.9 < time.monotonic() - began < 4


async def test_a_bookmark_tells_how_far_a_quiet_watch_has_come(machines: Machines) -> None:
    other = await Machines.in_new_namespace(machines.api)
    since = await version(machines)
    elsewhere = await other.create()
    # A real server sends it two seconds before the end, and only when it has seen something happen meanwhile.
    query: Item = {"resourceVersion": since, "timeoutSeconds": 5, "allowWatchBookmarks": "true"}
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(machines.api.watch(machines.path, until=1, **query))
        count = 0
        while not watch.done():
            count += 1
            await other.status({"nodeName": str(count)})
    events = watch.result()
    assert [event["type"] for event in events] == ["BOOKMARK"]
    mark = events[0]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("TalosMachine", "nodetrail.dev/v1alpha1")
    assert int(mark["metadata"]["resourceVersion"]) >= int(elsewhere.version)
    await other.clear()


async def test_a_forgotten_version_is_told_in_the_stream(machines: Machines) -> None:
    events = await machines.api.watch(machines.path, resourceVersion="1")
    assert len(events) == 1
    assert events[0]["type"] == "ERROR"
    status = events[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


async def test_a_version_must_be_a_number(machines: Machines) -> None:
    events = await machines.api.watch(machines.path, resourceVersion="now")
    assert events[0]["type"] == "HTTP"
    assert events[0]["object"]["code"] in {400, 500}


async def test_selected_watches_see_objects_come_and_go(machines: Machines) -> None:
    since = await version(machines)
    await machines.create("a")
    await machines.merge({"metadata": {"labels": {"site": "x"}}}, "a")
    await machines.merge({"spec": {"approved": True}}, "a")
    await machines.merge({"metadata": {"labels": {"site": "y"}}}, "a")
    await machines.api.must("DELETE", f"{machines.path}/a")
    events = await machines.api.watch(machines.path, resourceVersion=since, labelSelector="site=x", timeoutSeconds=1)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_one_object_can_be_watched(machines: Machines) -> None:
    since = await version(machines)
    await machines.create("a")
    await machines.create("b")
    query: Item = {"resourceVersion": since, "fieldSelector": "metadata.name=b", "timeoutSeconds": 1}
    assert told(await machines.api.watch(machines.path, **query)) == [("ADDED", "b")]


async def test_other_namespaces_are_not_heard(machines: Machines) -> None:
    other = await Machines.in_new_namespace(machines.api)
    since = await version(machines)
    await other.create("elsewhere")
    await machines.create("here")
    events = await machines.api.watch(machines.path, resourceVersion=since, timeoutSeconds=1)
    assert told(events) == [("ADDED", "here")]
    everywhere = await machines.api.watch("apis/nodetrail.dev/v1alpha1/talosmachines", resourceVersion=since, until=2)
    assert told(everywhere) == [("ADDED", "elsewhere"), ("ADDED", "here")]
    await other.clear()
