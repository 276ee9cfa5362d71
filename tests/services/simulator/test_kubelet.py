"""The kubelets that the simulator plays: what they write, when, and that they survive an API server that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from libs import kube, runtime
from services.simulator.box import Box
from services.simulator.fleet import Fleet
from services.simulator.kubelet import Kubelets
from services.simulator.spec import KubeletSpec
from tests.services.simulator.sites import SECONDS, Cluster, new_subnet, node

CLUSTER = Cluster()


class FakeApi:
    """Holds Nodes as an API server does, as far as a kubelet writes them."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.fail: kube.KubeError | None = None

    async def create(self, resource: object, body: dict[str, Any]) -> None:
        assert resource is kube.NODES
        name = body["metadata"]["name"]
        if name in self.nodes:
            raise kube.AlreadyExists(name)
        self.nodes[name] = {}

    async def merge_patch(
        self, resource: object, name: str, body: dict[str, Any], *, manager: str, subresource: str
    ) -> None:
        assert (resource, manager, subresource) == (kube.NODES, "kubelet", "status")
        if self.fail:
            raise self.fail
        if name not in self.nodes:
            raise kube.NotFound(name)
        self.writes += 1
        self.nodes[name] |= body["status"]

    def listed(self, name: str) -> tuple[str, ...]:
        addresses = self.nodes.get(name, {}).get("addresses", ())
        return tuple(a["address"] for a in addresses if a["type"] == "InternalIP")


class Playing:
    """A fleet whose kubelets write to a fake API server."""

    def __init__(self, fleet: Fleet, api: FakeApi, health: runtime.Health) -> None:
        self.fleet, self.api, self.health = fleet, api, health
        self.subnet = new_subnet()

    def at(self, last: int) -> str:
        return f"{self.subnet}.{last}"

    async def running(self, name: str, last: int, **more: object) -> Box:
        text = CLUSTER.configuration(hostname=name).decode()
        return await self.fleet.add(node(name, self.at(last), configuration_text=text, **more))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0.01)

    async def lists(self, name: str, *lasts: int) -> None:
        wanted = tuple(self.at(last) for last in lasts)
        await self.until(lambda: self.api.listed(name) == wanted)


@asynccontextmanager
async def playing() -> AsyncIterator[Playing]:
    api, health = FakeApi(), runtime.Health()
    async with Fleet() as fleet, asyncio.TaskGroup() as tasks:
        kubelets = Kubelets(cast("kube.Api", api), fleet, health)
        fleet.on_change = kubelets.changed
        task = tasks.create_task(kubelets.run())
        yield Playing(fleet, api, health)
        task.cancel()


@pytest.fixture
async def site() -> AsyncIterator[Playing]:
    async with playing() as site:
        yield site


async def test_a_running_node_registers_and_says_who_and_where_it_is(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    written = site.api.nodes["cp-1"]
    assert {"type": "Hostname", "address": "cp-1"} in written["addresses"]
    assert written["nodeInfo"]["systemUUID"] == box.node.uuid
    assert written["nodeInfo"]["bootID"] == box.node.boot_id
    assert [(c["type"], c["status"]) for c in written["conditions"]] == [("Ready", "True")]


async def test_a_box_in_maintenance_has_no_kubelet(site: Playing) -> None:
    await site.fleet.add(node("box", site.at(1)))
    await site.running("cp-1", 2)
    await site.lists("cp-1", 2)
    assert set(site.api.nodes) == {"cp-1"}


async def test_it_follows_moves_and_power_cycles(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.move([site.at(2)])
    await site.lists("cp-1", 2)
    await box.power_cycle([site.at(3), site.at(4)])
    await site.lists("cp-1", 3, 4)


async def test_a_boot_at_the_same_address_is_news(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.power_cycle()
    await site.until(lambda: site.api.nodes["cp-1"]["nodeInfo"]["bootID"] == box.node.boot_id)


async def test_it_waits_as_long_as_it_was_told(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.set_kubelet(delay_seconds=0.5)
    await box.power_cycle([site.at(2)])
    booted = asyncio.get_running_loop().time()
    await site.lists("cp-1", 2)
    assert asyncio.get_running_loop().time() - booted >= 0.4


async def test_a_new_boot_starts_the_wait_anew(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.set_kubelet(delay_seconds=0.4)
    for last in (2, 3):
        await box.power_cycle([site.at(last)])
        await asyncio.sleep(0.2)  # half of the wait, which must then begin again
    booted = asyncio.get_running_loop().time() - 0.2
    await site.until(lambda: site.api.listed("cp-1") != (site.at(1),))
    assert site.api.listed("cp-1") == (site.at(3),), "the second address was never written"
    assert asyncio.get_running_loop().time() - booted >= 0.35


async def test_told_to_it_lists_an_address_where_nothing_answers(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.power_off()
    await box.set_kubelet(addresses=[site.at(61)])
    await site.lists("cp-1", 61)
    await box.set_kubelet(addresses=None)
    await box.power_on([site.at(62)])
    await site.lists("cp-1", 62)


async def test_switched_off_it_says_nothing_until_it_is_on_again(site: Playing) -> None:
    box = await site.running("cp-1", 1)
    await site.lists("cp-1", 1)
    await box.set_kubelet(enabled=False)
    await box.move([site.at(2)])
    other = await site.running("cp-2", 3)
    await site.lists("cp-2", 3)
    assert site.api.listed("cp-1") == (site.at(1),)
    await box.set_kubelet(enabled=True)
    await site.lists("cp-1", 2)
    assert other.answers


async def test_an_api_server_that_is_away_is_waited_for(site: Playing) -> None:
    site.api.fail = kube.Unavailable("gone")
    await site.running("cp-1", 1)
    await site.until(lambda: not site.health.ready)
    assert site.health.waits == {"kubernetes": "gone"}
    site.api.fail = None
    await site.lists("cp-1", 1)
    await site.until(lambda: site.health.ready)


async def test_a_node_that_was_taken_away_is_written_no_more(site: Playing) -> None:
    await site.running("cp-1", 1, kubelet=KubeletSpec(delay_seconds=0.2))
    await site.fleet.remove("cp-1")
    await asyncio.sleep(0.3)  # past the delay; what must not happen has no end to wait for
    assert site.api.nodes == {}
