"""The first send goes to the approved box behind the pinned certificate, once, and to nobody else."""

from __future__ import annotations

import hashlib

from libs.events import Event, MachineReadinessChanged, Outcome
from tests.e2e.conftest import MakeSite
from tests.e2e.site import Site, ready_of


async def test_discovered_approved_sent_once_converged(site: Site) -> None:
    box, other = await site.add_box("s1-a", site.at(11)), await site.add_box("s1-b", site.at(12))
    for each in (box, other):
        await site.registered(each)
        await site.ready(each, "AwaitingApproval")

    await site.approve(box)

    await site.converged(box, at=site.at(11))
    sent = hashlib.sha256(site.secrets.configuration_of(box).encode()).hexdigest()
    assert (await site.state(box))["configurations_received"]["sha256"] == [sent]
    assert await site.received(other) == 0
    await site.ready(other, "AwaitingApproval")
    await site.told(box, _is_a_whole_life, what="registered, sent and Converged, in this order")


def _is_a_whole_life(events: list[Event]) -> bool:
    words = [event.reason if isinstance(event, MachineReadinessChanged) else type(event).__name__ for event in events]
    wanted = ["MachineRegistered", "AwaitingApproval", "MachineConfigurationSent", "Converged"]
    places = [words.index(word) for word in wanted if word in words]
    return len(places) == len(wanted) and places[0] < places[1] < places[3] and places[2] < places[3]


async def test_the_pinned_box_is_sent_to_at_its_other_address(site: Site) -> None:
    """A box with two addresses, declared at one that does not answer any more."""
    box = await site.add_box("s5", site.at(11), site.at(12))
    await site.declare(box, endpoint=site.at(99))

    await site.approve(box)

    found = await site.converged(box)
    assert found.status.observed_endpoint in box.addresses
    assert found.spec.endpoint == site.at(99)
    assert await site.received(box) == 1


async def test_after_a_new_lease_the_pin_is_stale_and_nothing_is_sent_until_it_is_renewed(site: Site) -> None:
    box = await site.add_box("s5-lease", site.at(11))
    await site.registered(box)
    old = (await site.state(box))["fingerprint"]
    new = (await site.boxes.switch(box.name, "move", addresses=[site.at(61)]))["fingerprint"]
    assert new != old

    await site.approve(box, pin=old)

    await site.decided(box, Outcome.RECORDED, address=site.at(61))
    shown = await site.ready(box, "CertificateMismatch", at=site.at(61))
    message = ready_of(shown).message
    assert old in message
    assert new in message
    assert await site.received(box) == 0

    await site.edit(box, maintenanceFingerprint=new)
    await site.converged(box, at=site.at(61))
    assert await site.received(box) == 1


async def test_approved_without_a_pin_is_neither_moved_nor_sent_to(site: Site) -> None:
    box = await site.add_box("s6", site.at(11))
    await site.registered(box)
    await site.approve(box, pin="")
    await site.ready(box, "CertificateNotPinned", at=site.at(11))

    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    await site.decided(box, Outcome.REFUSED, "CertificateNotPinned", address=site.at(61))
    machine = await site.machine(box)
    assert machine.status.observed_endpoint == ""
    assert await site.received(box) == 0


async def test_another_certificate_at_the_dial_endpoint_gets_nothing(site: Site) -> None:
    box = await site.add_box("s8", site.at(11))
    await site.registered(box)
    pin = "A" * 43 + "="
    await site.approve(box, pin=pin)

    shown = await site.ready(box, "CertificateMismatch", at=site.at(11))

    message = ready_of(shown).message
    assert pin in message
    assert (await site.state(box))["fingerprint"] in message
    assert await site.received(box) == 0


async def test_a_refused_send_is_tried_again_while_box_and_pin_are_the_same(site: Site) -> None:
    box = await site.add_box("s13-refused", site.at(11))
    await site.registered(box)
    await site.boxes.switch(box.name, "trouble", refuse_apply={"code": "INVALID_ARGUMENT", "times": 1})

    await site.approve(box)

    shown = await site.ready(box, "ConfigurationRejected", "Converged")
    await site.converged(box, at=site.at(11))
    assert await site.received(box) == 1
    assert shown.sent_to


async def test_a_box_rebooted_after_a_refused_send_waits_for_a_new_pin(site: Site) -> None:
    box = await site.add_box("s13-reboot", site.at(11))
    await site.registered(box)
    await site.boxes.switch(box.name, "trouble", refuse_apply={"code": "INVALID_ARGUMENT", "times": 1000})
    await site.approve(box)
    await site.ready(box, "ConfigurationRejected")

    await site.boxes.switch(box.name, "power-cycle")
    await site.boxes.switch(box.name, "trouble", refuse_apply=None)

    await site.ready(box, "ReappearedInMaintenance")
    assert await site.received(box) == 0
    await site.edit(box, maintenanceFingerprint=(await site.state(box))["fingerprint"])
    await site.converged(box)
    assert await site.received(box) == 1


async def test_killed_between_the_note_and_the_send_it_sends_to_the_same_boot_only(make_site: MakeSite) -> None:
    """The box holds the request so long that the service dies after `sentTo` was written, before an answer."""
    site = await make_site()
    box = await site.add_box("s13-killed", site.at(11))
    await site.registered(box)
    await site.boxes.switch(box.name, "trouble", hold_apply=True)
    await site.approve(box)
    await site.until(box, lambda m: m.was_sent, what="sentTo written")

    site.services["machine_reconciler"].kill()
    await site.boxes.switch(box.name, "trouble", hold_apply=False)
    assert await site.received(box) == 0
    site.services["machine_reconciler"].start()

    await site.converged(box, at=site.at(11))
    assert await site.received(box) == 1
