"""Broken boxes and broken messages stop nothing."""

from __future__ import annotations

import nats

from libs.events import DeadLetter
from tests.e2e.site import Site


async def test_broken_boxes_in_the_range_do_not_stop_the_sweep(site: Site) -> None:
    for number, kind in enumerate(("garbage", "silent", "endless", "slow-loris", "huge-answer"), 21):
        await site.boxes.add_hostile(address=site.at(number), kind=kind)

    box = await site.add_box("hostile-neighbours", site.at(90))

    await site.registered(box)
    await site.approve(box)
    await site.converged(box)


async def test_broken_messages_are_set_aside_and_the_next_is_decided(site: Site) -> None:
    client = await nats.connect(site.nats_server.url)
    try:
        stream = client.jetstream()
        known = {"ce-type": "dev.nodetrail.EndpointObserved.v1"}
        await stream.publish("nodetrail.observed.node.broken", b"\xff{", headers=known)
        await stream.publish("nodetrail.observed.node.strange", b"{}", headers={"ce-type": "dev.other.Kind.v9"})
        await stream.publish("nodetrail.observed.discovery.here.broken", b'{"source": 7}', headers=known)
    finally:
        await client.close()

    box = await site.running("after-broken", site.at(11))
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])
    await site.converged(box, at=site.at(61))

    dead = [event async for event in site.trail("nodetrail.dead.>")]
    assert all(isinstance(event, DeadLetter) for event in dead)
    assert {(event.consumer, event.subject) for event in dead} >= {
        ("status-writer-trail", "nodetrail.observed.node.broken"),
        ("status-writer-trail", "nodetrail.observed.node.strange"),
        ("status-writer-sightings", "nodetrail.observed.discovery.here.broken"),
    }
