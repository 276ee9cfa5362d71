"""Wires the status writer and runs it: `python -m services.status_writer`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial

from libs import bus, kube, runtime
from libs.events import subjects
from services.status_writer.gate import Gate
from services.status_writer.metrics import Metrics
from services.status_writer.rebuild import rebuild
from services.status_writer.settings import Settings
from services.status_writer.writer import Writer

NAME = "status_writer"
AGENT = "status-writer"
TIDY_SECONDS = 60.0

SIGHTINGS_CONSUMER = bus.ConsumerSpec(
    stream=subjects.SIGHTINGS,
    durable="status-writer-sightings",
    filter_subjects=("nodetrail.observed.discovery.>",),
)
TRAIL_CONSUMER = bus.ConsumerSpec(
    stream=subjects.TRAIL, durable="status-writer-trail", filter_subjects=("nodetrail.observed.>",)
)
CONSUMERS = (
    SIGHTINGS_CONSUMER,
    TRAIL_CONSUMER,
    bus.ConsumerSpec(
        stream=subjects.SIGHTINGS,
        durable="machine-reconciler-sightings",
        filter_subjects=("nodetrail.observed.discovery.>",),
    ),
    bus.ConsumerSpec(
        stream=subjects.TRAIL,
        durable="machine-reconciler-trail",
        filter_subjects=("nodetrail.observed.node.>", "nodetrail.decided.>"),
    ),
)
"""Every consumer of every service: only this service may make them, under these fixed names."""


async def run(settings: Settings, service: runtime.Service) -> None:
    """Live until cancelled."""
    service.health.waiting(NAME, "not known yet what was settled before the start")
    async with (
        kube.connect(agent=AGENT) as api,
        bus.connect(settings, name=AGENT, health=service.health, registry=service.registry) as nats,
        nats.micro(AGENT, runtime.version(), "Decides where machines are dialled, and records it in their status"),
    ):
        gate = Gate(partial(api.get, kube.MACHINES, "any", "default"), service.health)
        writer = Writer(api, nats, gate, limits=settings.limits, metrics=Metrics(service.registry))
        machines = kube.Store(api, kube.MACHINES, on_change=writer.machine_changed, health=gate)

        async def decide() -> None:
            await machines.synced()
            await rebuild(writer, nats, now=datetime.now(UTC))
            service.health.fine(NAME)
            async with asyncio.TaskGroup() as group:
                for spec in (SIGHTINGS_CONSUMER, TRAIL_CONSUMER):
                    consuming = nats.consume(
                        stream=spec.stream, durable=spec.durable, handle=writer.handle, gate=gate.wait
                    )
                    group.create_task(consuming, name=spec.durable)

        async def tidy() -> None:
            while True:
                await asyncio.sleep(TIDY_SECONDS)
                writer.sightings.forget(datetime.now(UTC))

        await runtime.run_until_stopped(
            streams=partial(nats.keep_streams, CONSUMERS), machines=machines.run, decide=decide, tidy=tidy
        )


def main() -> None:
    """Run the service until it is told to stop."""
    runtime.main(NAME, Settings, run)


if __name__ == "__main__":
    main()
