"""Listing: selectors, pages that all show one moment, versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.kube_api.client import GROUP, Item, Machines


async def names(machines: Machines, **query: Any) -> list[str]:
    items = (await machines.api.must("GET", machines.path, **query)).body["items"]
    return [item["metadata"]["name"] for item in items]


async def test_a_list_has_kind_version_and_whole_objects(machines: Machines) -> None:
    made = await machines.create("b")
    last = await machines.create("a")
    listed = (await machines.api.must("GET", machines.path)).body
    assert (listed["kind"], listed["apiVersion"]) == ("TalosMachineList", "nodetrail.dev/v1alpha1")
    assert int(listed["metadata"]["resourceVersion"]) >= int(last.version)
    assert listed["items"] == [last.body, made.body]
    everywhere = (await machines.api.must("GET", f"{GROUP}/talosmachines")).body
    assert made.body in everywhere["items"]


async def test_an_empty_list(machines: Machines) -> None:
    listed = (await machines.api.must("GET", machines.path)).body
    assert listed["items"] == []
    assert listed["metadata"]["resourceVersion"].isdecimal()


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("site=x", ["a", "b"]),
        ("site==x,rack=1", ["a"]),
        ("site!=x", ["c", "d"]),
        ("site in (x, y)", ["a", "b", "c"]),
        ("site notin (x),rack", ["c"]),
        ("rack", ["a", "c"]),
        ("!site", ["d"]),
        ("site=z", []),
    ],
)
async def test_label_selectors(machines: Machines, selector: str, found: list[str]) -> None:
    await machines.create("a", labels={"site": "x", "rack": "1"})
    await machines.create("b", labels={"site": "x"})
    await machines.create("c", labels={"site": "y", "rack": "2"})
    await machines.create("d")
    assert await names(machines, labelSelector=selector) == found


async def test_field_selectors(machines: Machines) -> None:
    await machines.create("a")
    await machines.create("b")
    assert await names(machines, fieldSelector="metadata.name=b") == ["b"]
    assert await names(machines, fieldSelector="metadata.name!=b") == ["a"]
    assert await names(machines, fieldSelector=f"metadata.namespace={machines.namespace},metadata.name=a") == ["a"]
    assert await names(machines, fieldSelector="metadata.namespace=elsewhere") == []
    for wrong in ("spec.endpoint=x", "nonsense"):
        answer = await machines.api.ask("GET", machines.path, fieldSelector=wrong)
        assert (answer.code, answer.reason) == (400, "BadRequest"), wrong


async def test_pages_go_on_where_the_last_one_ended(machines: Machines) -> None:
    for name in "abcde":
        await machines.create(name)
    page = (await machines.api.must("GET", machines.path, limit=2)).body
    assert page["metadata"]["remainingItemCount"] == 3
    # What happens between two pages is not seen: a list shows one moment.
    await machines.api.must("DELETE", f"{machines.path}/d")
    await machines.create("aa")
    await machines.create("f")
    found = [item["metadata"]["name"] for item in page["items"]]
    token = page["metadata"]["continue"]
    while token:
        follow = (await machines.api.must("GET", machines.path, **{"limit": 2, "continue": token})).body
        assert follow["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
        found += [item["metadata"]["name"] for item in follow["items"]]
        token = follow["metadata"].get("continue", "")
    assert found == ["a", "b", "c", "d", "e"]


async def test_a_broken_continuation_is_refused(machines: Machines) -> None:
    query: Item = {"limit": 1, "continue": "nonsense"}
    answer = await machines.api.ask("GET", machines.path, **query)
    assert (answer.code, answer.reason) == (400, "BadRequest")


async def test_older_versions_are_good_enough_for_a_list(machines: Machines) -> None:
    made = await machines.create("a")
    await machines.create("b")
    assert await names(machines, resourceVersion="0") == ["a", "b"]
    assert await names(machines, resourceVersion=made.version) == ["a", "b"]
    future = await machines.api.ask("GET", machines.path, resourceVersion=int(made.version) + 10**9)
    assert (future.code, future.reason, future.causes[0]["reason"]) == (504, "Timeout", "ResourceVersionTooLarge")
    exact = {"resourceVersion": made.version, "resourceVersionMatch": "Exact"}
    assert await names(machines, **exact) == ["a"]
