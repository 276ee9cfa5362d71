"""Wires the simulator: fleet, switches over HTTP and, given a KUBECONFIG, the kubelets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from libs import kube, runtime
from services.simulator.control import control
from services.simulator.fleet import Fleet
from services.simulator.kubelet import Kubelets
from services.simulator.settings import Settings
from services.simulator.spec import authority_from, read_fleet


async def run(settings: Settings, service: runtime.Service) -> None:
    """Play the fleet until stopped."""
    path = Path(settings.fleet)
    file = read_fleet(path)
    fleet = Fleet(seed=settings.seed, cluster_ca=authority_from(file.cluster_ca))
    async with AsyncExitStack() as resources:
        await service.listen(control(fleet, folder=path.parent))
        parts: dict[str, Callable[[], Awaitable[None]]] = {"fleet": _for_ever}
        if os.environ.get("KUBECONFIG"):
            api = await resources.enter_async_context(kube.connect(os.environ["KUBECONFIG"], agent="kubelet"))
            kubelets = Kubelets(api, fleet, service.health)
            fleet.on_change = kubelets.changed
            parts["kubelets"] = kubelets.run
        await resources.enter_async_context(fleet)
        service.health.waiting("fleet", "being put in place")
        for node in file.nodes:
            await fleet.add(node)
        for hostile in file.hostile:
            await fleet.add_hostile(hostile)
        service.health.fine("fleet")
        await runtime.run_until_stopped(**parts)


async def _for_ever() -> None:
    await asyncio.Event().wait()


def main() -> None:
    """Run as a process."""
    runtime.main("simulator", Settings, run, serves_pages=True)


if __name__ == "__main__":
    main()
