"""A converged node that moves, goes away, comes back or swaps places is followed, and nothing is edited."""

from __future__ import annotations

import asyncio

from libs.events import Outcome
from libs.machine import dial_endpoint
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, ready_of, reason, spec_bytes


async def test_a_power_cycled_node_is_followed_after_the_re_probe_missed_it(make_site: MakeSite) -> None:
    """The ADR's way: the read fails first, the Node names the new address later."""
    site = await make_site(machine_reconciler={"reprobe_seconds": 1})
    box = await site.running("s2-probe", site.at(11))
    before = await site.machine(box)

    await site.boxes.switch(box.name, "kubelet", delay_seconds=4)
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    missed = await site.ready(box, "CurrentConfigUnavailable", at=site.at(11))
    assert ready_of(missed).status == "False"
    after = await site.converged(box, at=site.at(61))
    assert ready_of(after).status == "True"
    assert spec_bytes(after) == spec_bytes(before)
    assert after.status.observed_endpoint_for == before.spec.endpoint
    assert await site.received(box) == 1


async def test_a_power_cycled_node_is_followed_at_once_when_its_node_says_so(make_site: MakeSite) -> None:
    """The short cut: the Node event comes long before the next re-probe would."""
    site = await make_site(machine_reconciler={"reprobe_seconds": 600})
    box = await site.running("s2-node", site.at(11))
    before = await site.machine(box)
    reasons: list[str] = []
    site.operator.on_change(lambda: reasons.extend(reason(m) for m in site.operator.machines))

    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    after = await site.converged(box, at=site.at(61))
    assert "CurrentConfigUnavailable" in reasons, "Ready was False in between"
    assert spec_bytes(after) == spec_bytes(before)
    assert await site.received(box) == 1


async def test_a_node_without_a_fixed_name_is_followed_by_the_name_it_told(site: Site) -> None:
    box = await site.running("s2-unnamed", site.at(11), hostname=False)
    assert (await site.machine(box)).status.node_name == box.name

    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    await site.converged(box, at=site.at(61))


async def test_what_the_node_lists_is_recorded_without_proof_and_dialled_next(site: Site) -> None:
    """The ADR's rule (2) alone: nothing answers at the new address yet."""
    box = await site.running("s3", site.at(11))

    await site.boxes.switch(box.name, "power-off")
    await site.boxes.switch(box.name, "kubelet", addresses=[site.at(61)])

    recorded = await site.decided(box, Outcome.RECORDED, address=site.at(61))
    assert recorded.source in ("lookup", "node")
    waiting = await site.ready(box, "CurrentConfigUnavailable", at=site.at(61))
    assert waiting.status.observed_source in ("lookup", "node")

    await site.boxes.switch(box.name, "power-on", addresses=[site.at(61)])
    await site.converged(box, at=site.at(61))


async def test_a_machine_nobody_approved_is_found_again_by_discovery(site: Site) -> None:
    box = await site.add_box("s4", site.at(11))
    await site.registered(box)
    await site.ready(box, "AwaitingApproval", at=site.at(11))

    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    moved = await site.ready(box, "AwaitingApproval", at=site.at(61))
    assert moved.status.observed_source == "discovery"
    assert moved.spec.endpoint == site.at(11)
    assert await site.received(box) == 0


async def test_an_edited_endpoint_overrides_what_was_observed_and_back(site: Site) -> None:
    box = await site.running("s9", site.at(11))
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61), site.at(62)])
    moved = await site.until(box, lambda m: dial_endpoint(m) != site.at(11), what="observed elsewhere")
    observed = dial_endpoint(moved)
    other = site.at(62) if observed == site.at(61) else site.at(61)
    await site.converged(box, at=observed)

    await site.edit(box, endpoint=other)
    edited = await site.converged(box, at=other)
    assert edited.status.observed_endpoint == observed, "nothing was cleared"
    assert edited.status.observed_endpoint_for == site.at(11)

    await site.edit(box, endpoint=site.at(11))
    assert dial_endpoint(await site.machine(box)) == observed, "in force again"
    await site.converged(box, at=observed)


async def test_a_vanished_node_is_missed_within_the_re_probe_and_seen_again(site: Site) -> None:
    box = await site.running("s11", site.at(11))
    await site.boxes.switch(box.name, "kubelet", enabled=False)

    await site.boxes.switch(box.name, "power-off")
    missed = await site.ready(box, "CurrentConfigUnavailable", at=site.at(11))
    assert ready_of(missed).status == "False"

    await site.boxes.switch(box.name, "power-on")
    await site.converged(box, at=site.at(11))


async def test_two_machines_that_swap_addresses_are_told_apart(site: Site) -> None:
    one = await site.running("s12-a", site.at(11))
    two = await site.running("s12-b", site.at(12))
    reasons: set[tuple[str, str]] = set()
    site.operator.on_change(lambda: reasons.update((m.spec.identity.uuid, reason(m)) for m in site.operator.machines))
    for box in (one, two):
        await site.boxes.switch(box.name, "kubelet", delay_seconds=5)
        await site.boxes.switch(box.name, "power-off")

    await asyncio.gather(
        site.boxes.switch(one.name, "power-on", addresses=[site.at(12)]),
        site.boxes.switch(two.name, "power-on", addresses=[site.at(11)]),
    )

    await site.ready(one, "IdentityMismatch", "Converged", at=None)
    await site.converged(one, at=site.at(12))
    await site.converged(two, at=site.at(11))
    assert {(one.uuid, "IdentityMismatch"), (two.uuid, "IdentityMismatch")} <= reasons
    assert (await site.received(one), await site.received(two)) == (1, 1), "nothing was written to the wrong box"
