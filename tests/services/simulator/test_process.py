"""The simulator as a process: its fleet file, its switches over HTTP, its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from libs import talos
from libs.embedded.boxes import Boxes, SwitchRefusedError
from libs.embedded.service import ROOT, ServiceProcess
from libs.endpoint import Endpoint
from tests.services.simulator.sites import SECONDS, Cluster, encoded, new_subnet

CLUSTER = Cluster()


class Site:
    """A fleet in a process: three boxes, one of them off, and something hostile."""

    def __init__(self, folder: Path) -> None:
        self.subnet = new_subnet()
        self.file = folder / "fleet.yaml"
        (folder / "w.yaml").write_bytes(CLUSTER.configuration("worker", hostname="w-1"))
        fleet = {
            "cluster_ca": {
                "crt": encoded(CLUSTER.authority.certificate_pem),
                "key": encoded(CLUSTER.authority.key_pem),
            },
            "nodes": [
                {"name": "box", "addresses": [self.at(1)], "install_seconds": 0.05},
                {"name": "w-1", "addresses": [self.at(2)], "configuration": "w.yaml"},
                {"name": "spare", "addresses": [self.at(3)], "power": "off"},
            ],
            "hostile": [{"address": self.at(9), "kind": "garbage"}],
        }
        self.file.write_text(yaml.safe_dump(fleet))
        self.process = ServiceProcess("simulator", {"fleet": self.file, "seed": 7}, log_file=folder / "log")

    def at(self, last: int) -> str:
        return f"{self.subnet}.{last}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    site.process.start()
    yield site
    began = time.monotonic()
    assert site.process.stop() == 0, site.process.log_text
    assert time.monotonic() - began < 5


@pytest.fixture
async def boxes(site: Site) -> AsyncIterator[Boxes]:
    async with Boxes(site.process.url) as boxes:
        yield boxes


async def test_the_fleet_is_as_its_file_says(site: Site, boxes: Boxes) -> None:
    box, worker, spare = [await boxes.get(name) for name in ("box", "w-1", "spare")]
    assert (box["mode"], box["power"], box["kind"]) == ("maintenance", "on", "unknown")
    assert (worker["mode"], worker["hostname"], worker["kind"]) == ("configured", "w-1", "worker")
    assert (spare["power"], spare["fingerprint"], spare["answers"]) == ("off", "", False)
    leaf = await talos.look(Endpoint(site.at(1)), SECONDS)
    assert leaf.fingerprint == box["fingerprint"]
    async with aiohttp.ClientSession() as session, session.get(f"{site.process.url}/nodes") as answer:
        assert [state["name"] for state in await answer.json()] == ["box", "spare", "w-1"]


async def test_its_console_shows_each_leaf(site: Site, boxes: Boxes) -> None:
    await boxes.add({"name": "console", "addresses": [site.at(50)]})
    moved = await boxes.switch("console", "move", addresses=[site.at(51)])
    assert moved["fingerprint"] in site.process.log_text
    assert "issued server certificate" in site.process.log_text


async def test_the_switches_answer_when_the_box_is_as_they_say(site: Site, boxes: Boxes) -> None:
    await boxes.add({"name": "moving", "addresses": [site.at(20)]})
    for action, body, last in (
        ("power-cycle", {"addresses": [site.at(21)]}, 21),
        ("move", {"addresses": [site.at(22)]}, 22),
        ("wipe", {"addresses": [site.at(23)]}, 23),
        ("power-cycle", {}, 23),
    ):
        state = await boxes.switch("moving", action, **body)
        assert (await talos.look(Endpoint(site.at(last)), SECONDS)).fingerprint == state["fingerprint"], action
    off = await boxes.switch("moving", "power-off")
    assert (off["power"], off["answers"]) == ("off", False)
    with pytest.raises(talos.Unreachable):
        await talos.look(Endpoint(site.at(23)), SECONDS)
    on = await boxes.switch("moving", "power-on", addresses=[site.at(24)])
    assert on["addresses"] == [site.at(24)]
    assert (await boxes.switch("moving", "trouble", hold_apply=True))["troubles"]["hold_apply"]
    assert (await boxes.switch("moving", "kubelet", delay_seconds=3))["kubelet"]["delay_seconds"] == 3


async def test_a_twin_is_a_box_like_any_other(site: Site, boxes: Boxes) -> None:
    box = await boxes.get("box")
    twin = await boxes.add(
        {"name": "twin", "addresses": [site.at(30)]} | {k: box[k] for k in ("uuid", "serial", "macs")}
    )
    async with (
        talos.maintenance(Endpoint(site.at(1)), pin=None, timeout_seconds=SECONDS) as one,
        talos.maintenance(Endpoint(site.at(30)), pin=None, timeout_seconds=SECONDS) as other,
    ):
        assert await one.identity() == await other.identity()
    assert twin["fingerprint"] != box["fingerprint"]


@pytest.mark.parametrize(
    ("action", "body", "status", "said"),
    [
        ("power-on", {}, 409, "on already"),
        ("move", {"addresses": ["nowhere"]}, 422, "'nowhere'"),
        ("move", {}, 422, "wants addresses"),
        ("power-cycle", {"adresses": []}, 422, "adresses"),
        ("trouble", {"rude": 1}, 422, "rude"),
        ("trouble", {"refuse_apply": {"code": "NO"}}, 422, "'NO'"),
        ("kubelet", {"addresses": ["nowhere"]}, 422, "'nowhere'"),
        ("fly", {}, 404, "power-cycle"),
    ],
)
async def test_what_cannot_be_done_says_why(
    boxes: Boxes, action: str, body: dict[str, object], status: int, said: str
) -> None:
    with pytest.raises(SwitchRefusedError, match=f" {status} ") as refused:
        await boxes.switch("box", action, **body)
    assert said in str(refused.value)


async def test_names_and_addresses_are_taken_once(site: Site, boxes: Boxes) -> None:
    for action in (
        boxes.switch("spare", "power-on", addresses=[site.at(1)]),
        boxes.switch("w-1", "move", addresses=[site.at(9)]),
    ):
        with pytest.raises(SwitchRefusedError, match=r"409.*held by"):
            await action
    with pytest.raises(SwitchRefusedError, match="409"):
        await boxes.add({"name": "box", "addresses": [site.at(40)]})
    with pytest.raises(SwitchRefusedError, match="409"):
        await boxes.add_hostile(address=site.at(1), kind="silent")
    with pytest.raises(SwitchRefusedError, match=r"404.*no node 'nobody'"):
        await boxes.get("nobody")
    with pytest.raises(SwitchRefusedError, match=r"422.*node \(x\)"):
        await boxes.add({"name": "x", "addresses": [site.at(40)], "colour": "red"})


async def test_nodes_and_hostile_things_come_and_go(site: Site, boxes: Boxes) -> None:
    await boxes.add({"name": "brief", "addresses": [site.at(60)]})
    await boxes.add_hostile(address=site.at(61), kind="resets")
    async with aiohttp.ClientSession(base_url=site.process.url) as session:
        async with session.get("/hostile") as answer:
            assert [entry["kind"] for entry in await answer.json()] == ["resets", "garbage"]
        async with session.delete("/nodes/brief") as answer:
            assert (await answer.json())["name"] == "brief"
        async with session.delete(f"/hostile/{site.at(61)}") as answer:
            assert answer.status == 204
        async with session.delete(f"/hostile/{site.at(61)}") as answer:
            assert answer.status == 404
        async with session.post("/nodes", data=b"[") as answer:
            assert answer.status == 400
    assert (await boxes.add({"name": "brief", "addresses": [site.at(60), site.at(61)]}))["answers"]


def test_a_wrong_fleet_file_stops_it_and_names_the_entry(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("nodes: [{name: cp-1, adresses: [127.0.0.1]}]")
    done = subprocess.run(
        [sys.executable, "-m", "services.simulator"],
        env={**os.environ, "NODETRAIL_FLEET": str(file)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "NODETRAIL_FLEET: nodes[0] (cp-1): Object contains unknown field `adresses`" in done.stderr
