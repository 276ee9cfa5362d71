"""Wires the Node watcher and runs it: `python -m services.node_watcher`."""

from __future__ import annotations

from libs import bus, kube, runtime
from services.node_watcher.settings import Settings
from services.node_watcher.watcher import Watcher

NAME = "node_watcher"
AGENT = "node-watcher"


async def run(settings: Settings, service: runtime.Service) -> None:
    """Live until cancelled."""
    async with (
        kube.connect(settings.nodes_kubeconfig or None, agent=AGENT) as api,
        bus.connect(settings, name=AGENT, health=service.health, registry=service.registry) as nats,
        nats.micro(AGENT, runtime.version(), "What Kubernetes Nodes say about their addresses"),
    ):
        watcher = Watcher(nats)
        store = kube.Store(api, kube.NODES, on_change=watcher.node_changed, health=service.health)
        await runtime.run_until_stopped(nodes=store.run, watcher=watcher.run)


def main() -> None:
    """Run the service until it is told to stop."""
    runtime.main(NAME, Settings, run)


if __name__ == "__main__":
    main()
