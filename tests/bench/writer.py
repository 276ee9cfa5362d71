"""The status writer: unchanged observations beside a bare fetch+ack loop, one recorded beside a bare GET+PATCH."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import nats
from nats.js.api import ConsumerConfig

from libs import kube
from libs.embedded.operator import Operator, operator_at
from libs.embedded.service import ServiceProcess
from libs.embedded.stack import Stack
from libs.events import EndpointObserved, SeenAddress, decode, encode, subjects
from libs.identity import Identity
from libs.machine import Source, TalosMachine
from tests.bench.row import ROUNDS, Row, against_floor

NAMESPACE = "nodetrail"
MACHINES = 500
SITES = 60
RECORDED = 60
DURABLE = "status-writer-sightings"


async def measure(folder: Path, kubeconfigs: dict[str, Path]) -> list[Row]:
    """Both rows, on one NATS server, one API server and one writer."""
    async with _writer_at(folder, kubeconfigs) as (writer, operator, client):
        await _declare(operator)
        unchanged = [await _unchanged(writer, client, number) for number in range(ROUNDS)]
        recorded = [await _recorded(operator, client, number) for number in range(ROUNDS)]
    return [
        against_floor(
            "unchanged observations, one writer",
            unchanged,
            unit="1/s",
            floor_is="bare nats-py fetch(500)+decode+ack of the same messages",
            target=0.7,
            better="more",
        ),
        against_floor(
            "observation to status written, idle (median)",
            recorded,
            unit="ms",
            floor_is="bare GET+PATCH",
            target=3.0,
            better="less",
        ),
    ]


@asynccontextmanager
async def _writer_at(
    folder: Path, kubeconfigs: dict[str, Path]
) -> AsyncIterator[tuple[ServiceProcess, Operator, nats.NATS]]:
    stack = Stack(folder, kubeconfigs=kubeconfigs)
    try:
        server = stack.nats_server()
        await asyncio.to_thread(stack.start, server)
        writer = stack.service("status_writer", allowed_ranges="127.0.0.0/8")
        await asyncio.to_thread(stack.start, writer)
        async with operator_at(str(kubeconfigs["admin"]), NAMESPACE) as operator:
            client = await nats.connect(server.url)
            yield writer, operator, client
            await client.close()
    finally:
        await asyncio.to_thread(stack.stop)


def _identity(number: int) -> Identity:
    return Identity(uuid=f"4c4c4544-0034-5210-8031-{number:012x}", serial_number=f"BENCH{number:06}")


def _address(number: int, subnet: int = 0) -> str:
    return f"127.{210 + subnet}.{number >> 8}.{number & 255}"


async def _declare(operator: Operator) -> None:
    """Make the machines, and wait until they are watched."""
    for number in range(MACHINES):
        identity = _identity(number)
        body = {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "metadata": {"name": f"bench-{number}", "namespace": NAMESPACE},
            "spec": {
                "endpoint": _address(number),
                "identity": {"uuid": identity.uuid, "serialNumber": identity.serial_number},
            },
        }
        await operator.api.create(kube.MACHINES, body, NAMESPACE)
    await operator.until(lambda machines: len(machines) >= MACHINES, what="all machines", seconds=60)
    await asyncio.sleep(1)  # the writer's own watch is as far by then; a straggler would only cost it speed


def _message(number: int, site: str, address: str, sweep: int) -> tuple[str, dict[str, str], bytes]:
    event = EndpointObserved(
        source=Source.DISCOVERY,
        addresses=(SeenAddress(address=address, fingerprint="A" * 43 + "="),),
        identity=_identity(number),
        site=site,
        sweep=sweep,
        sweeps_agreeing=2,
    )
    subject = subjects.observed_discovery(site, f"bench-{number}")
    now = datetime.now(UTC)
    headers, data = encode(event, message_id=f"{subject}/{sweep}", source="bench", time=now)
    return subject, headers, data


async def _unchanged(writer: ServiceProcess, client: nats.NATS, number: int) -> tuple[float, float]:
    """Return messages a second of the writer and of the bare loop, which follow each other on the same messages."""
    count = MACHINES * SITES
    writer.process.send(signal.SIGSTOP)
    await _publish(client, number)
    await client.jetstream().add_consumer(
        subjects.SIGHTINGS, ConsumerConfig(durable_name=f"bare-{number}", max_ack_pending=20_000)
    )
    writer.process.send(signal.SIGCONT)
    begun = time.perf_counter()
    await _drained(client, DURABLE)
    ours = count / (time.perf_counter() - begun)
    begun = time.perf_counter()
    bare = multiprocessing.get_context("spawn").Process(
        target=bare_loop, args=(client.connected_url.geturl(), f"bare-{number}", count)
    )
    bare.start()
    await _started(client, f"bare-{number}")
    begun = time.perf_counter()
    await _drained(client, f"bare-{number}")
    return ours, count / (time.perf_counter() - begun)


async def _publish(client: nats.NATS, sweep: int) -> None:
    stream = client.jetstream()
    at_once = asyncio.Semaphore(100)

    async def one(number: int, site: str) -> None:
        async with at_once:
            subject, headers, data = _message(number, site, _address(number), sweep)
            await stream.publish(subject, data, headers=headers)

    for site in range(SITES):
        await asyncio.gather(*(one(number, f"site-{site}") for number in range(MACHINES)))


async def _started(client: nats.NATS, durable: str) -> None:
    while not (await client.jetstream().consumer_info(subjects.SIGHTINGS, durable)).delivered.consumer_seq:
        await asyncio.sleep(0.002)


async def _drained(client: nats.NATS, durable: str) -> None:
    async with asyncio.timeout(120):
        while True:
            info = await client.jetstream().consumer_info(subjects.SIGHTINGS, durable)
            if not info.num_pending and not info.num_ack_pending:
                return
            await asyncio.sleep(0.01)


def _is_at(name: str, address: str, machines: list[TalosMachine]) -> bool:
    return any(m.metadata.name == name and m.status.observed_endpoint == address for m in machines)


def bare_loop(url: str, durable: str, count: int) -> None:
    """What nats-py alone can do: fetch, decode, ack, in a process of its own."""

    async def loop() -> None:
        client = await nats.connect(url)
        pull = await client.jetstream().pull_subscribe_bind(durable, subjects.SIGHTINGS)
        left = count
        while left > 0:
            for message in await pull.fetch(500, timeout=5):
                decode(message.headers, message.data)
                await message.ack()
                left -= 1
        await client.flush()
        await client.close()

    asyncio.run(loop())


async def _recorded(operator: Operator, client: nats.NATS, number: int) -> tuple[float, float]:
    """Return medians in ms: from publishing an observation to its status being seen, and of a GET and a PATCH."""
    ours, bare = [], []
    for machine in range(RECORDED):
        name, address = f"bench-{machine}", _address(machine, subnet=1 + number)
        subject, headers, data = _message(machine, "site-moving", address, sweep=number)
        begun = time.perf_counter()
        await client.jetstream().publish(subject, data, headers=headers)
        await operator.until(partial(_is_at, name, address), what=f"{name} at {address}", seconds=20)
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        found = await operator.api.get(kube.MACHINES, name, NAMESPACE)
        body: dict[str, object] = {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "status": {"nodeName": f"bare-{number}-{machine}"},
        }
        await operator.api.apply(
            kube.MACHINES,
            name,
            body,
            NAMESPACE,
            manager="bare",
            subresource="status",
            resource_version=found.metadata.resource_version,
        )
        bare.append(time.perf_counter() - begun)
    return sorted(ours)[len(ours) // 2] * 1e3, sorted(bare)[len(bare) // 2] * 1e3
