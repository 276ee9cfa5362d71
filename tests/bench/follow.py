"""How long a moved node is out of reach: from the update of its Kubernetes Node to `Ready` at the new address."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from libs import kube
from libs.machine import TalosMachine, dial_endpoint, ready_condition
from tests.bench.row import Row, plain
from tests.e2e.site import Secrets, Site, site_at

MOVES = 20


async def measure(folder: Path, kubeconfigs: dict[str, Path], secrets: Secrets) -> Row:
    """Move one node again and again; the re-probe period is the default, so only the Node's news can be in time."""
    settings: dict[str, dict[str, object]] = {"machine_reconciler": {"reprobe_seconds": 120, "namespace": "nodetrail"}}
    async with site_at(folder, kubeconfigs=kubeconfigs, secrets=secrets, settings=settings) as site:
        box = await site.running("bench-follow", site.at(10))
        await site.boxes.switch(box.name, "kubelet", enabled=False)
        seconds = [await _move(site, box.name, site.at(11 + number)) for number in range(MOVES)]
    return plain("Node update to Ready at the new address, one machine", seconds, unit="s", target=1.0)


async def _move(site: Site, name: str, address: str) -> float:
    await site.boxes.switch(name, "power-cycle", addresses=[address])
    listed = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    body: dict[str, object] = {"status": {"addresses": listed}}
    await site.operator.api.merge_patch(kube.NODES, name, body, subresource="status", manager="kubelet")
    updated = time.monotonic()

    def there(machines: list[TalosMachine]) -> bool:
        return any(
            dial_endpoint(m) == address and (ready := ready_condition(m)) is not None and ready.status == "True"
            for m in machines
        )

    await site.operator.until(there, what=f"Ready at {address}", seconds=30)
    seconds = time.monotonic() - updated
    await asyncio.sleep(0.5)  # let the Node's last events settle: one move is measured at a time
    return seconds
