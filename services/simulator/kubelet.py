"""Plays the kubelets of configured nodes: registers the Kubernetes Node and keeps what it says about itself current."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from libs import kube, runtime
from services.simulator.box import Box
from services.simulator.fleet import Fleet
from services.simulator.node import TALOS_VERSION, Phase

WORKERS = 8
MANAGER = "kubelet"
PART = "kubernetes"
REFUSED_SECONDS = 10.0
"""Until the next try after a refusal that is not about the API server's being away."""

_log = runtime.log("kubelet")


@dataclass(frozen=True)
class Listed:
    """What a Node is to say. Another boot is news even when all else is the same."""

    name: str
    system_uuid: str
    boot_id: str
    addresses: tuple[str, ...]


class Kubelets:
    """The kubelets of a fleet. Tell it of changes with `changed`; `run` does the writing."""

    def __init__(self, api: kube.Api, fleet: Fleet, health: runtime.Health) -> None:
        self._api = api
        self._fleet = fleet
        self._health = health
        self._queue: runtime.KeyQueue[str] = runtime.KeyQueue()
        self._noticed: dict[str, Listed | None] = {}
        self._backoff = runtime.Backoff(first_seconds=0.2, limit_seconds=5.0)

    def changed(self, box: Box) -> None:
        """Notice what a box's Node should say now; it is written after the kubelet's own delay."""
        if self._fleet.nodes.get(box.name) is not box:
            self._noticed.pop(box.name, None)
            self._queue.forget(box.name)
            return
        listed = listed_by(box)
        if listed == self._noticed.get(box.name):
            return
        self._noticed[box.name] = listed
        self._queue.forget(box.name)
        if listed is not None:
            at_once = box.kubelet.addresses is not None
            self._queue.add_after(box.name, 0.0 if at_once else box.kubelet.delay_seconds)

    async def run(self) -> None:
        """Write Nodes for ever."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            try:
                again = await self._write(name)
            finally:
                self._queue.done(name)
            if again:
                self._queue.add_after(name, again)

    async def _write(self, name: str) -> float:
        """Bring one Node up to date; return after how many seconds to try again, or 0."""
        box = self._fleet.nodes.get(name)
        listed = listed_by(box) if box else None
        if listed is None:
            return 0.0
        try:
            await self._register(listed)
        except kube.Unavailable as error:
            self._health.waiting(PART, str(error))
            return self._backoff.next()
        except kube.KubeError as error:
            _log.error("node not written", node=name, error=str(error))
            return REFUSED_SECONDS
        self._backoff.reset()
        self._health.fine(PART)
        _log.info("node written", node=name, kubernetes_node=listed.name, addresses=listed.addresses)
        return 0.0

    async def _register(self, listed: Listed) -> None:
        body = {"status": _status(listed)}
        try:
            await self._api.merge_patch(kube.NODES, listed.name, body, manager=MANAGER, subresource="status")
        except kube.NotFound:
            labels = {"kubernetes.io/hostname": listed.name, "kubernetes.io/os": "linux"}
            with contextlib.suppress(kube.AlreadyExists):
                await self._api.create(kube.NODES, {"metadata": {"name": listed.name, "labels": labels}})
            await self._api.merge_patch(kube.NODES, listed.name, body, manager=MANAGER, subresource="status")


def listed_by(box: Box) -> Listed | None:
    """Return what the box's kubelet says, or None while there is none that says anything."""
    node, kubelet = box.node, box.kubelet
    if not kubelet.enabled or not node.is_configured:
        return None
    if kubelet.addresses is None and node.phase is not Phase.RUNNING:
        return None
    return Listed(
        name=node.hostname,
        system_uuid=node.uuid if node.spec.smbios else "",
        boot_id=node.boot_id,
        addresses=node.addresses if kubelet.addresses is None else kubelet.addresses,
    )


def _status(listed: Listed) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "addresses": [
            *({"type": "InternalIP", "address": address} for address in listed.addresses),
            {"type": "Hostname", "address": listed.name},
        ],
        "conditions": [ready],
        "nodeInfo": {
            "machineID": listed.system_uuid.replace("-", ""),
            "systemUUID": listed.system_uuid,
            "bootID": listed.boot_id,
            "kernelVersion": "6.18.0-talos",
            "osImage": f"Talos ({TALOS_VERSION})",
            "containerRuntimeVersion": "containerd://2.2.3",
            "kubeletVersion": "v1.36.3",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }
