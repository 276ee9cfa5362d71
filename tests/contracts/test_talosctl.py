"""talosctl as a witness: what Talos's own client makes of the simulated nodes, and of our fingerprints."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs import talos
from libs.endpoint import Endpoint
from services.simulator.box import Box
from services.simulator.fleet import Fleet
from tests.peers.tools import Tool
from tests.services.simulator.sites import SECONDS, new_subnet, node


class Talosctl:
    """talosctl beside the event loop that plays the nodes."""

    def __init__(self, tool: Tool, folder: Path) -> None:
        self._tool = tool
        self.folder = folder

    async def __call__(self, *words: str | Path) -> str:
        return await asyncio.to_thread(self._tool, *words)

    async def refused(self, *words: str | Path) -> str:
        return await asyncio.to_thread(self._tool.refused, *words)

    async def resources(self, *words: str | Path) -> list[dict[str, Any]]:
        """What `get` finds, each resource with metadata and spec."""
        text, decoder = (await self("get", *words, "-o", "json")).strip(), json.JSONDecoder()
        found = []
        while text:
            one, end = decoder.raw_decode(text)
            found.append(one)
            text = text[end:].strip()
        return found


@pytest.fixture(scope="module")
def generated(talosctl: Tool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster's files as `talosctl gen config` writes them."""
    folder = tmp_path_factory.mktemp("cluster")
    talosctl("gen", "config", "test", "https://cluster.example:6443", "--output", folder)
    return folder


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with Fleet() as fleet:
        yield fleet


@pytest.fixture
async def box(fleet: Fleet) -> Box:
    return await fleet.add(node("witnessed", f"{new_subnet()}.11", macs=("b4:96:91:00:00:01", "b4:96:91:00:00:02")))


@pytest.fixture
def ctl(talosctl: Tool, tmp_path: Path) -> Talosctl:
    return Talosctl(talosctl, tmp_path)


def address(box: Box) -> str:
    return box.node.addresses[0]


async def configured(box: Box) -> None:
    async with asyncio.timeout(SECONDS):
        while not (box.answers and box.node.is_configured):
            await asyncio.sleep(0.02)


async def test_it_reads_a_box_in_maintenance_without_credentials(box: Box, ctl: Talosctl) -> None:
    there = ("--insecure", "--nodes", address(box))

    (system,) = await ctl.resources("systeminformation", *there)
    links = {link["metadata"]["id"]: link["spec"] for link in await ctl.resources("links", *there)}
    (status,) = await ctl.resources("machinestatus", *there)
    (kind,) = await ctl.resources("machinetype", *there)
    version = await ctl("version", *there)

    assert (system["spec"]["uuid"], system["spec"]["serialnumber"]) == (box.node.uuid, box.node.serial)
    physical = [link for link in links.values() if link["type"] == "ether" and not link["kind"]]
    assert tuple(link["permanentAddr"] for link in physical) == box.node.macs
    assert status["spec"]["stage"] == "maintenance"
    assert kind["spec"] == "unknown"
    assert "v1.13.9" in version.partition("Server:")[2]


async def test_it_prints_tables_and_knows_the_aliases(box: Box, ctl: Talosctl) -> None:
    there = ("--insecure", "--nodes", address(box))
    assert address(box) in await ctl("get", "addresses", *there)
    assert "SystemInformation" in await ctl("get", "systeminformations.hardware.talos.dev", *there)
    assert "linkstatuses.net.talos.dev" in await ctl("get", "rd", *there)


async def test_secrets_are_not_for_whoever_comes_along(box: Box, ctl: Talosctl) -> None:
    there = ("--insecure", "--nodes", address(box))
    assert "PermissionDenied" in await ctl.refused("get", "machineconfig", *there)
    assert "not registered" in await ctl.refused("get", "nonsense", *there)


async def test_it_sends_to_the_pinned_certificate_only(box: Box, ctl: Talosctl, generated: Path) -> None:
    file = generated / "controlplane.yaml"
    apply = ("apply-config", "--insecure", "--nodes", address(box), "--file", file, "--cert-fingerprint")

    wrong = base64.b64encode(bytes(32)).decode()
    assert "fingerprint" in await ctl.refused(*apply, wrong)
    assert box.state().configurations_received.count == 0

    leaf = await talos.look(Endpoint(address(box)), SECONDS)
    await ctl(*apply, leaf.fingerprint)
    assert box.state().configurations_received.count == 1
    await configured(box)


async def test_with_a_talosconfig_it_reads_a_configured_node(box: Box, ctl: Talosctl, generated: Path) -> None:
    file = generated / "controlplane.yaml"
    await ctl(
        "apply-config", "--insecure", "--nodes", address(box), "--file", file, "--cert-fingerprint", box.fingerprint
    )
    await configured(box)
    there = (
        "--talosconfig",
        generated / "talosconfig",
        "--endpoints",
        address(box),
        "--nodes",
        address(box),
    )

    version = (await ctl("version", *there)).partition("Server:")[2]
    (active, persistent) = await ctl.resources("machineconfig", *there)
    (name,) = await ctl.resources("nodename", *there)
    boot_id = await ctl("read", "/proc/sys/kernel/random/boot_id", *there)

    assert f"NODE:        {address(box)}" in version
    assert "RBAC" in version
    assert {active["metadata"]["id"], persistent["metadata"]["id"]} == {"v1alpha1", "persistent"}
    sent = box.state().configurations_received.sha256
    assert sent == (hashlib.sha256(active["spec"].encode()).hexdigest(),), "byte for byte as it was sent"
    assert name["spec"]["nodename"] == box.node.hostname
    assert boot_id.strip() == box.node.boot_id


async def test_without_a_certificate_a_configured_node_tells_nothing(box: Box, ctl: Talosctl, generated: Path) -> None:
    file = generated / "controlplane.yaml"
    await ctl("apply-config", "--insecure", "--nodes", address(box), "--file", file)
    await configured(box)
    said = await ctl.refused("get", "systeminformation", "--insecure", "--nodes", address(box))
    assert "Unavailable" in said, "the alert itself is lost on whoever writes before reading, as with a real node"


async def test_a_worker_is_reached_through_its_control_plane(fleet: Fleet, ctl: Talosctl, generated: Path) -> None:
    subnet = new_subnet()
    boxes = []
    for number, kind in enumerate(("controlplane", "worker"), 11):
        text = (generated / f"{kind}.yaml").read_text()
        boxes.append(await fleet.add(node(kind, f"{subnet}.{number}", configuration_text=text, hostname=kind)))
    control_plane, worker = boxes
    config = ("--talosconfig", generated / "talosconfig")

    through = (*config, "--endpoints", address(control_plane), "--nodes", f"{address(worker)},{address(control_plane)}")
    version = (await ctl("version", *through)).partition("Server:")[2]
    assert f"NODE:        {address(worker)}" in version
    assert f"NODE:        {address(control_plane)}" in version
    names = await ctl.resources("hostname", *through)
    assert [name["spec"]["hostname"] for name in names] == ["worker", "controlplane"]

    around = (*config, "--endpoints", address(worker), "--nodes", address(control_plane))
    assert "no request forwarding" in await ctl.refused("get", "hostname", *around)


async def test_reboot_shutdown_and_reset_are_followed(box: Box, ctl: Talosctl, generated: Path) -> None:
    file = generated / "controlplane.yaml"
    await ctl("apply-config", "--insecure", "--nodes", address(box), "--file", file)
    await configured(box)
    there = ("--talosconfig", generated / "talosconfig", "--endpoints", address(box), "--nodes", address(box))
    before = box.node.boot_id

    await ctl("reboot", "--wait=false", *there)
    async with asyncio.timeout(SECONDS):
        while not (box.answers and box.node.boot_id != before):
            await asyncio.sleep(0.02)

    await ctl("reset", "--wait=false", "--graceful=false", "--reboot", "--system-labels-to-wipe", "STATE", *there)
    async with asyncio.timeout(SECONDS):
        while not (box.answers and box.node.mode == "maintenance"):
            await asyncio.sleep(0.02)


def test_the_configurations_it_generates_are_yaml_with_our_documents(generated: Path) -> None:
    for kind in ("controlplane", "worker"):
        talos.check_configuration((generated / f"{kind}.yaml").read_bytes())
        kinds = [document.get("kind") for document in yaml.safe_load_all((generated / f"{kind}.yaml").read_text())]
        assert None in kinds
