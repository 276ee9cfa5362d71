"""What an operator takes back after the send changes nothing about following and reading, and sends nothing."""

from __future__ import annotations

import pytest

from tests.e2e.site import Site, ready_of

OTHER = "B" * 43 + "="


@pytest.mark.parametrize(
    "withdrawn",
    [
        pytest.param({"approved": False}, id="approval"),
        pytest.param({"maintenanceFingerprint": None}, id="pin"),
        pytest.param({"maintenanceFingerprint": OTHER}, id="another pin"),
    ],
)
async def test_a_running_node_is_followed_whatever_is_withdrawn(site: Site, withdrawn: dict[str, object]) -> None:
    box = await site.running("s14", site.at(11))

    await site.edit(box, **withdrawn)
    await site.boxes.switch(box.name, "power-cycle", addresses=[site.at(61)])

    machine = await site.converged(box, at=site.at(61))
    assert await site.received(box) == 1
    if OTHER in withdrawn.values():
        machine = await site.until(
            box, lambda m: "pin ignored" in ready_of(m).message, what="the pin is said to be ignored"
        )
        assert ready_of(machine).reason == "Converged"
