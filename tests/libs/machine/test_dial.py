"""`dial_endpoint`: the observed address counts only while it replaces what the operator wrote."""

import pytest

from libs.machine import TalosMachine, TalosMachineSpec, TalosMachineStatus, dial_endpoint


def machine(declared: str, observed: str = "", observed_for: str = "") -> TalosMachine:
    return TalosMachine(
        spec=TalosMachineSpec(endpoint=declared),
        status=TalosMachineStatus(observed_endpoint=observed, observed_endpoint_for=observed_for),
    )


@pytest.mark.parametrize(
    ("declared", "observed", "observed_for", "dialled"),
    [
        pytest.param("10.0.0.1", "", "", "10.0.0.1", id="nothing observed"),
        pytest.param("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2", id="observed is in force"),
        pytest.param("10.0.0.3", "10.0.0.2", "10.0.0.1", "10.0.0.3", id="the operator wrote another one"),
        pytest.param("10.0.0.1:50000", "10.0.0.2", "10.0.0.1", "10.0.0.1:50000", id="the same address written anew"),
        pytest.param("10.0.0.1", "10.0.0.2", "", "10.0.0.1", id="observed for nothing"),
        pytest.param("10.0.0.1", "", "10.0.0.1", "10.0.0.1", id="an empty observation is none"),
    ],
)
def test_dials(declared: str, observed: str, observed_for: str, dialled: str) -> None:
    assert dial_endpoint(machine(declared, observed, observed_for)) == dialled


def test_editing_back_brings_the_observation_back_into_force() -> None:
    observed = machine("10.0.0.1", "10.0.0.2", "10.0.0.1")
    edited = machine("10.0.0.9", "10.0.0.2", "10.0.0.1")
    assert [dial_endpoint(m) for m in (observed, edited, observed)] == ["10.0.0.2", "10.0.0.9", "10.0.0.2"]
