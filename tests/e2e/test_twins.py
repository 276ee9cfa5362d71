"""A box that only claims to be a machine never moves it and never receives its configuration."""

from __future__ import annotations

from libs.events import Outcome
from tests.e2e.site import Site, ready_of


async def test_a_twin_never_moves_a_converged_machine(site: Site) -> None:
    box = await site.running("s7", site.at(11))

    twin = await site.add_box("s7-twin", site.at(21), twin_of=box)
    await site.decided(box, Outcome.REFUSED, "SelfReported", address=site.at(21))
    await site.converged(box, at=site.at(11))

    # The real one moves while the twin stays: a failed read must not open the door.
    await site.boxes.switch(box.name, "kubelet", delay_seconds=4)
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])
    await site.ready(box, "CurrentConfigUnavailable", at=site.at(11))
    await site.converged(box, at=site.at(61))

    assert await site.received(twin) == 0
    assert await site.received(box) == 1
    recorded = [e for e in await site.decisions(box) if e.outcome == Outcome.RECORDED]
    assert [e.after for e in recorded] == [site.at(61)]


async def test_a_twin_at_the_old_address_of_a_moved_machine_gets_nothing(site: Site) -> None:
    box = await site.running("s7-old", site.at(11))
    await site.boxes.switch(box.name, "kubelet", delay_seconds=4)
    await site.boxes.switch(box.name, "power-off")

    twin = await site.add_box("s7-old-twin", site.at(11), twin_of=box)
    shown = await site.ready(box, "ReappearedInMaintenance", at=site.at(11))
    assert (await site.state(twin))["fingerprint"] in ready_of(shown).message

    await site.boxes.switch(box.name, "power-on", addresses=[site.at(61)])
    await site.converged(box, at=site.at(61))
    assert await site.received(twin) == 0
    assert await site.received(box) == 1


async def test_a_wiped_node_elsewhere_is_refused_until_a_person_pins_it(site: Site) -> None:
    box = await site.running("s7-wiped", site.at(11))

    state = await site.boxes.switch(box.name, "wipe", addresses=[site.at(61)])

    await site.decided(box, Outcome.REFUSED, "SelfReported", address=site.at(61))
    await site.ready(box, "CurrentConfigUnavailable", at=site.at(11))
    assert await site.received(box) == 1
    await site.edit(box, maintenanceFingerprint=state["fingerprint"])
    await site.converged(box, at=site.at(61))
    assert await site.received(box) == 2
