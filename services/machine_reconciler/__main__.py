"""Wires the machine reconciler and runs it: `python -m services.machine_reconciler`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial

from libs import bus, kube, runtime, talos
from libs.events import subjects
from services.machine_reconciler.announce import Announcer
from services.machine_reconciler.gather import Gatherer
from services.machine_reconciler.loop import Loop
from services.machine_reconciler.machines import Machines
from services.machine_reconciler.metrics import Metrics
from services.machine_reconciler.news import News
from services.machine_reconciler.nodes import Nodes
from services.machine_reconciler.outbox import Outbox
from services.machine_reconciler.pictures import Pictures
from services.machine_reconciler.registration import Registrar
from services.machine_reconciler.round import Rounds
from services.machine_reconciler.secrets import Secrets
from services.machine_reconciler.send import Sender
from services.machine_reconciler.settings import Settings
from services.machine_reconciler.status import Statuses

NAME = "machine_reconciler"
AGENT = "machine-reconciler"
NODES_STALE_SECONDS = 180.0
"""Nodes that were not heard of for longer may be anywhere; a quiet watch is renewed before that."""


def _now() -> datetime:
    return datetime.now(UTC)


async def run(settings: Settings, service: runtime.Service) -> None:
    """Live until cancelled."""
    async with AsyncExitStack() as open_things:
        enter = open_things.enter_async_context
        api = await enter(kube.connect(agent=AGENT))
        nodes_api = (
            await enter(kube.connect(settings.nodes_kubeconfig, agent=AGENT)) if settings.nodes_kubeconfig else api
        )
        nats = await enter(bus.connect(settings, name=AGENT, health=service.health, registry=service.registry))
        await enter(nats.micro(AGENT, runtime.version(), "The life of each machine: probed, sent, read, located"))

        machines, nodes, pictures = Machines(), Nodes(), Pictures()
        metrics = Metrics(service.registry, machines)
        outbox = Outbox(nats)
        announcer = Announcer(outbox, partial(kube.tell, api))
        statuses = Statuses(api, machines.put)
        secrets = Secrets(api)
        caught_up = asyncio.Event()

        def knows_all() -> bool:
            return caught_up.is_set() and node_store.stale_seconds < NODES_STALE_SECONDS

        gatherer = Gatherer(talos, secrets, nodes, count=metrics.answered, knows_all=knows_all)
        sender = Sender(talos, statuses, secrets, announcer, clock=_now)
        rounds = Rounds(
            gatherer=gatherer,
            sender=sender,
            statuses=statuses,
            announcer=announcer,
            pictures=pictures,
            nodes=nodes,
            node_reader=nodes_api,
            clock=_now,
        )
        loop = Loop(rounds, machines, nodes, reprobe_seconds=settings.reprobe_seconds, moved=announcer.moved)
        registrar = Registrar(
            api,
            machines,
            namespace=settings.namespace,
            max_unapproved=settings.max_unapproved,
            registered=announcer.registered,
            limited=metrics.registration_limited.inc,
        )
        news = News(loop, machines, pictures, registrar)
        machine_store = kube.Store(api, kube.MACHINES, on_change=loop.machine_changed, health=service.health)
        node_store = kube.Store(nodes_api, kube.NODES, on_change=loop.node_changed, health=service.health)

        async def sightings() -> None:
            await machine_store.synced()  # before, every box would look unknown
            await news.catch_up(nats)
            caught_up.set()
            await nats.consume(stream=subjects.SIGHTINGS, durable="machine-reconciler-sightings", handle=news.sighting)

        async def trail() -> None:
            await machine_store.synced()
            await nats.consume(stream=subjects.TRAIL, durable="machine-reconciler-trail", handle=news.trail)

        await runtime.run_until_stopped(
            machines=machine_store.run,
            nodes=node_store.run,
            loop=loop.run,
            outbox=outbox.run,
            announcer=announcer.run,
            sightings=sightings,
            trail=trail,
        )


def main() -> None:
    """Run the service until it is told to stop."""
    runtime.main(NAME, Settings, run)


if __name__ == "__main__":
    main()
