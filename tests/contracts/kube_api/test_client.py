"""libs/kube, the client that every service uses, against both servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from libs import kube, machine
from tests.contracts.kube_api.client import Machines


@pytest.fixture
async def writer(kubeconfigs: dict[str, Path]) -> AsyncIterator[kube.Api]:
    """The client as the status writer."""
    async with kube.connect(str(kubeconfigs["status-writer"]), agent="test") as api:
        yield api


async def test_a_decision_is_one_read_and_one_conditional_apply(machines: Machines, writer: kube.Api) -> None:
    await machines.create()
    live = await writer.get(kube.MACHINES, "a", machines.namespace)
    at = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    status = {
        "observedEndpoint": "192.0.2.9",
        "observedEndpointFor": live.spec.endpoint,
        "observedSource": "node",
        "observedAt": at.isoformat(),
    }
    options = {"manager": "nodetrail-status-writer", "subresource": "status"}
    version = live.metadata.resource_version
    written = await writer.apply(
        kube.MACHINES, "a", {"status": status}, machines.namespace, resource_version=version, **options
    )
    assert machine.dial_endpoint(written) == "192.0.2.9"
    assert written.status.observed_at == at
    with pytest.raises(kube.Conflict):
        await writer.apply(
            kube.MACHINES, "a", {"status": status}, machines.namespace, resource_version=version, **options
        )
    again = await writer.apply(kube.MACHINES, "a", {"status": status}, machines.namespace, **options)
    assert again.metadata.resource_version == written.metadata.resource_version


async def test_refusals_have_types(machines: Machines, writer: kube.Api) -> None:
    await machines.create()
    with pytest.raises(kube.NotFound):
        await writer.get(kube.MACHINES, "nobody", machines.namespace)
    with pytest.raises(kube.Forbidden, match="secrets"):
        await writer.get(kube.SECRETS, "s", machines.namespace)
    with pytest.raises(kube.Forbidden):
        await writer.merge_patch(kube.MACHINES, "a", {"spec": {"approved": True}}, machines.namespace, manager="m")
    with pytest.raises(kube.Invalid, match="observedSource"):
        await writer.merge_patch(
            kube.MACHINES,
            "a",
            {"status": {"observedSource": "x"}},
            machines.namespace,
            subresource="status",
            manager="m",
        )


async def test_a_store_follows(machines: Machines, writer: kube.Api) -> None:
    await machines.create("a")
    told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def on_change(old: machine.TalosMachine | None, new: machine.TalosMachine | None) -> None:
        name = (new or old or pytest.fail("told of nothing")).metadata.name
        told.put_nowait(("added" if old is None else "gone" if new is None else "changed", name))

    store = kube.Store(writer, kube.MACHINES, machines.namespace, on_change=on_change)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(store.run())
        await store.synced()
        await machines.create("b")
        await machines.merge({"spec": {"approved": True}}, "a")
        await machines.api.must("DELETE", f"{machines.path}/b")
        heard = [await told.get() for _ in range(4)]
        running.cancel()
    assert heard == [("added", "a"), ("added", "b"), ("changed", "a"), ("gone", "b")]
    assert [key[1] for key in store.items] == ["a"]


async def test_a_list_comes_in_pages(machines: Machines, writer: kube.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.kube.api.PAGE_ITEMS", 2)
    for name in "abcde":
        await machines.create(name)
    listing = await writer.list(kube.MACHINES, machines.namespace)
    assert [item.metadata.name for item in listing.items] == list("abcde")
    assert listing.oddities == []


async def test_telling_leaves_an_event(machines: Machines, kubeconfigs: dict[str, Path]) -> None:
    await machines.create()
    async with kube.connect(str(kubeconfigs["machine-reconciler"]), agent="machine-reconciler") as api:
        about = await api.get(kube.MACHINES, "a", machines.namespace)
        for _ in range(2):
            await kube.tell(api, about, reason="Converged", message="as wished")
    path = f"api/v1/namespaces/{machines.namespace}/events"
    (event,) = (await machines.api.must("GET", path, fieldSelector="involvedObject.name=a")).body["items"]
    assert (event["reason"], event["message"]) == ("Converged", "as wished")
