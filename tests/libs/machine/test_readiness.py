"""Conditions follow Kubernetes' conventions: the transition time moves with the status and with nothing else."""

from datetime import UTC, datetime, timedelta

from libs.machine import Condition, TalosMachine, TalosMachineSpec, TalosMachineStatus, ready_condition, with_condition
from libs.machine.readiness import MESSAGE_MAX

THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW = THEN + timedelta(minutes=5)
READY = Condition(type="Ready", status="True", reason="Converged", last_transition_time=THEN)
CONFLICT = Condition(type="IdentityConflict", status="False", reason="OneBox", last_transition_time=THEN)


def test_a_new_condition_is_stamped_now() -> None:
    [made] = with_condition((), Condition(type="Ready", status="True", reason="Converged"), now=NOW)
    assert made.last_transition_time == NOW


def test_another_reason_alone_is_no_transition() -> None:
    [made] = with_condition((READY,), Condition(type="Ready", status="True", reason="ConfigurationSent"), now=NOW)
    assert (made.reason, made.last_transition_time) == ("ConfigurationSent", THEN)


def test_another_status_is_a_transition() -> None:
    [made] = with_condition((READY,), Condition(type="Ready", status="False", reason="Unreachable"), now=NOW)
    assert made.last_transition_time == NOW


def test_other_conditions_stay_as_they_are() -> None:
    made = with_condition((READY, CONFLICT), Condition(type="Ready", status="Unknown", reason="Unreachable"), now=NOW)
    assert CONFLICT in made
    assert {c.type for c in made} == {"Ready", "IdentityConflict"}


def test_a_message_is_cut_to_what_the_api_server_takes() -> None:
    [made] = with_condition((), Condition(type="X", status="True", reason="Y", message="m" * 100_000), now=NOW)
    assert len(made.message) == MESSAGE_MAX


def test_ready_is_found_among_others() -> None:
    spec = TalosMachineSpec(endpoint="10.0.0.1")
    assert ready_condition(TalosMachine(spec=spec)) is None
    machine = TalosMachine(spec=spec, status=TalosMachineStatus(conditions=(CONFLICT, READY)))
    assert ready_condition(machine) is READY
