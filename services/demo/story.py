"""The story, step by step: what the operator or the world does, and what must be seen to hold afterwards.

A step that does not hold in time ends the demo with its name. Nothing here draws or starts processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from libs.events import EndpointDecided, Outcome
from libs.machine import Ready, TalosMachine, dial_endpoint, ready_condition
from services.demo.cluster import Cluster


class NotSeenError(Exception):
    """What a step promises was not seen to hold."""


class World(Protocol):
    """What the story needs of the stage."""

    subnet: str
    """The first three numbers of the simulated site's addresses."""

    async def box(self, name: str) -> dict[str, Any]: ...
    async def switch(self, name: str, action: str, **body: object) -> dict[str, Any]: ...
    async def add_box(self, box: dict[str, object]) -> dict[str, Any]: ...
    async def add_secret(self, name: str, data: dict[str, str]) -> None: ...
    async def edit_spec(self, machine: str, spec: dict[str, object]) -> None: ...
    async def refusal(self, machine: str, *, address: str, seconds: float) -> EndpointDecided: ...
    async def machines_until(
        self, holds: Callable[[dict[str, TalosMachine]], bool], *, what: str, seconds: float
    ) -> dict[str, TalosMachine]:
        """Wait until it holds of the machines by their boxes' names; `NotSeenError` names `what` otherwise."""
        ...


BOXES = ("cp-1", "cp-2", "cp-3")


@dataclass
class Told:
    """What earlier steps leave for later ones."""

    cluster: Cluster = field(default_factory=lambda: Cluster("demo"))


@dataclass(frozen=True)
class Step:
    """One line on the screen: a name, what it shows, and the doing of it, which returns the evidence."""

    name: str
    shows: str
    run: Callable[[World, Told], Awaitable[str]]


def reason(machine: TalosMachine) -> str:
    """Return the machine's `Ready` reason, or nothing before the first."""
    ready = ready_condition(machine)
    return ready.reason if ready else ""


def _all(word: Ready) -> Callable[[dict[str, TalosMachine]], bool]:
    return lambda machines: set(BOXES) <= set(machines) and all(reason(machines[b]) == word for b in BOXES)


def _holds(box: str, word: Ready, address: str) -> Callable[[dict[str, TalosMachine]], bool]:
    return lambda machines: (
        box in machines and reason(machines[box]) == word and dial_endpoint(machines[box]) == address
    )


async def discovered(world: World, _told: Told) -> str:
    await world.machines_until(_all(Ready.AWAITING_APPROVAL), what="three boxes registered", seconds=20)
    for box in BOXES:
        await _received(world, box, 0)
    return "3 boxes answered in maintenance mode, 3 machines registered, nothing sent"


async def approved(world: World, told: Told) -> str:
    for box in BOXES:
        await world.add_secret(
            box, {"config": told.cluster.configuration(box), "talosconfig": told.cluster.talosconfig()}
        )
        state = await world.box(box)
        await world.edit_spec(
            box,
            {
                "approved": True,
                "hostname": box,
                "maintenanceFingerprint": state["fingerprint"],
                "configuration": {"secretRef": {"name": box, "key": "config"}},
                "talosconfig": {"secretRef": {"name": box, "key": "talosconfig"}},
            },
        )
    await world.machines_until(_all(Ready.CONVERGED), what="three machines Converged", seconds=20)
    for box in BOXES:
        await _received(world, box, 1)
    return "each box received its configuration once, over the pinned certificate, and is Ready"


async def followed(world: World, _told: Told) -> str:
    before = (await world.machines_until(_all(Ready.CONVERGED), what="a calm start", seconds=10))["cp-2"]
    new = f"{world.subnet}.112"
    await world.switch("cp-2", "power-cycle", addresses=[new])
    after = (
        await world.machines_until(_holds("cp-2", Ready.CONVERGED, new), what=f"cp-2 Converged at {new}", seconds=20)
    )["cp-2"]
    if msgspec.json.encode(before.spec) != msgspec.json.encode(after.spec):
        raise NotSeenError("the spec of cp-2 was edited")
    return f"{before.spec.endpoint} went silent; proven and dialled at {new}; spec untouched"


async def twin_refused(world: World, _told: Told) -> str:
    original, address = await world.box("cp-1"), f"{world.subnet}.201"
    twin = {key: original[key] for key in ("uuid", "serial", "macs")}
    await world.add_box({"name": "twin-of-cp-1", "addresses": [address], **twin})
    refused = await world.refusal("cp-1", address=address, seconds=20)
    await _received(world, "twin-of-cp-1", 0)
    await world.machines_until(
        _holds("cp-1", Ready.CONVERGED, f"{world.subnet}.11"), what="cp-1 where it was", seconds=10
    )
    return f"a box at {address} claimed to be cp-1: {refused.outcome}, {refused.reason}; it received nothing"


async def wiped_refused(world: World, _told: Told) -> str:
    address = f"{world.subnet}.113"
    await world.switch("cp-3", "wipe", addresses=[address])
    await world.machines_until(
        lambda machines: reason(machines["cp-3"]) in (Ready.CURRENT_CONFIG_UNAVAILABLE, Ready.IDENTITY_MISMATCH),
        what="cp-3 missed at its old address",
        seconds=20,
    )
    refused = await world.refusal("cp-3", address=address, seconds=20)
    await _received(world, "cp-3", 1)
    return f"cp-3 came back empty at {address}: {refused.outcome}, {refused.reason}; nothing sent"


async def repinned(world: World, _told: Told) -> str:
    address = f"{world.subnet}.113"
    state = await world.box("cp-3")
    machines = await world.machines_until(
        lambda machines: any(m.fingerprint == state["fingerprint"] for m in machines["cp-3"].status.maintenance),
        what="the new certificate of cp-3 in its status",
        seconds=10,
    )
    pin = next(m for m in machines["cp-3"].status.maintenance if m.fingerprint == state["fingerprint"])
    await world.edit_spec("cp-3", {"maintenanceFingerprint": pin.fingerprint})
    await world.machines_until(
        _holds("cp-3", Ready.CONVERGED, address), what=f"cp-3 Converged at {address}", seconds=20
    )
    await _received(world, "cp-3", 2)
    return f"the operator pinned {pin.fingerprint[:12]}…: recorded, sent, and Ready at {address}"


async def _received(world: World, box: str, times: int) -> None:
    count = (await world.box(box))["configurations_received"]["count"]
    if count != times:
        raise NotSeenError(f"{box} received {count} configurations, not {times}")


def was_refused(event: object, address: str) -> bool:
    """Say whether an event of the trail refuses an observation of that address."""
    return (
        isinstance(event, EndpointDecided)
        and event.outcome == Outcome.REFUSED
        and any(seen.address == address for seen in event.observation.addresses)
    )


STEPS = (
    Step("discovered", "boxes in maintenance mode become machines", discovered),
    Step("approved", "approved with pins: configured, then Ready", approved),
    Step("followed", "a node is power-cycled to another address", followed),
    Step("twin refused", "a twin claims to be a running node", twin_refused),
    Step("wiped refused", "a node is wiped and comes back elsewhere", wiped_refused),
    Step("re-pinned", "a person pins the wiped node's new certificate", repinned),
)
