"""Each service is killed while a node moves, and started again: the end is the same."""

from __future__ import annotations

import pytest

from tests.e2e.site import Site, spec_bytes


@pytest.mark.parametrize("killed", ["discovery", "node_watcher", "machine_reconciler", "status_writer", "nats-server"])
async def test_the_end_is_the_same_whoever_was_killed(site: Site, killed: str) -> None:
    box = await site.running("s15", site.at(11))
    before = await site.machine(box)
    part = site.nats_server if killed == "nats-server" else site.services[killed]

    part.kill()
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])
    if killed not in ("machine_reconciler", "nats-server"):
        await site.until(box, lambda m: m.status != before.status, what="the move was met without it", seconds=10)
    part.start()

    after = await site.converged(box, at=site.at(61), seconds=40)
    assert spec_bytes(after) == spec_bytes(before)
    assert await site.received(box) == 1
