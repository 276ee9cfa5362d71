"""The rules of each kind of evidence, row by row."""

from typing import Any

import msgspec
import pytest

from libs.events import EndpointObserved, Outcome
from libs.machine import READ_FAILED, Ready, TalosMachine
from libs.rules import Facts, Reason, decide
from tests.libs.rules.given import (
    DECLARED,
    OTHER_PIN,
    PIN,
    THIRD_PIN,
    discovery,
    facts,
    lookup,
    lost,
    machine,
    node,
    picture,
    read,
)

ELSEWHERE, THIRD = "10.0.0.9", "10.0.0.17"


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        pytest.param(machine(), Reason.NOT_APPROVED, id="not approved"),
        pytest.param(machine(pin=PIN), Reason.NOT_APPROVED, id="not approved, pinned"),
        pytest.param(machine(approved=True, pin=PIN), Reason.PIN_PROTECTS_SEND, id="approved, another pin"),
        pytest.param(machine(approved=True, pin=OTHER_PIN), Reason.PIN_PROTECTS_SEND, id="approved, that pin"),
        pytest.param(lost(pin=OTHER_PIN), Reason.FOUND_UNDER_PIN, id="sent, re-pinned, lost"),
        pytest.param(lost(pin=OTHER_PIN, sent_to="adopted"), Reason.FOUND_UNDER_PIN, id="adopted, pinned, lost"),
        pytest.param(lost(pin=OTHER_PIN, approved=False), Reason.FOUND_UNDER_PIN, id="re-pinned, approval withdrawn"),
    ],
)
def test_discovery_is_recorded(about: TalosMachine, reason: Reason) -> None:
    decision = decide(facts(about, discovery(ELSEWHERE)))
    assert (decision.outcome, decision.reason, decision.after) == (Outcome.RECORDED, reason, ELSEWHERE)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        pytest.param(machine(approved=True), Reason.CERTIFICATE_NOT_PINNED, id="approved without a pin"),
        pytest.param(lost(), Reason.SELF_REPORTED, id="sent and lost"),
        pytest.param(lost(approved=False), Reason.SELF_REPORTED, id="approval withdrawn"),
        pytest.param(lost(pin=""), Reason.SELF_REPORTED, id="pin withdrawn"),
        pytest.param(lost(sent_to=OTHER_PIN, pin=OTHER_PIN), Reason.SELF_REPORTED, id="under the pin it was sent to"),
        pytest.param(lost(pin=THIRD_PIN), Reason.SELF_REPORTED, id="re-pinned, but another box"),
        pytest.param(lost(pin=OTHER_PIN, ready=Ready.CONVERGED), Reason.SELF_REPORTED, id="re-pinned, but readable"),
        pytest.param(
            lost(pin=OTHER_PIN, ready=Ready.CREDENTIALS_REJECTED), Reason.SELF_REPORTED, id="re-pinned, nothing known"
        ),
        pytest.param(lost(pin=OTHER_PIN, ready=None), Reason.SELF_REPORTED, id="re-pinned, Ready never set"),
        pytest.param(machine(sent_to=PIN), Reason.SELF_REPORTED, id="sent, nothing else"),
    ],
)
def test_discovery_is_refused(about: TalosMachine, reason: Reason) -> None:
    decision = decide(facts(about, discovery(ELSEWHERE)))
    assert (decision.outcome, decision.reason) == (Outcome.REFUSED, reason)


@pytest.mark.parametrize("reason", sorted(READ_FAILED))
def test_every_reason_that_means_the_last_read_failed(reason: Ready) -> None:
    assert decide(facts(lost(pin=OTHER_PIN, ready=reason), discovery(ELSEWHERE))).outcome is Outcome.RECORDED
    assert decide(facts(lost(ready=reason), node(ELSEWHERE))).outcome is Outcome.RECORDED


def twin(about: TalosMachine, *, here: str, there: str) -> Facts:
    """One site's picture has the identity at the dial endpoint and elsewhere."""
    return facts(about, discovery((DECLARED, here), (ELSEWHERE, there)))


@pytest.mark.parametrize(
    ("about", "here", "there", "reason"),
    [
        pytest.param(machine(), PIN, OTHER_PIN, Reason.TWIN_SUSPECTED, id="nobody is pinned"),
        pytest.param(machine(pin=PIN), PIN, OTHER_PIN, Reason.TWIN_SUSPECTED, id="the one here is pinned"),
        pytest.param(machine(pin=OTHER_PIN), PIN, OTHER_PIN, Reason.NOT_APPROVED, id="the one there is pinned"),
        pytest.param(machine(pin=THIRD_PIN), PIN, OTHER_PIN, Reason.TWIN_SUSPECTED, id="a third is pinned"),
        pytest.param(
            machine(approved=True, pin=OTHER_PIN), PIN, OTHER_PIN, Reason.PIN_PROTECTS_SEND, id="approved, pinned there"
        ),
        pytest.param(
            machine(approved=True, pin=PIN), PIN, OTHER_PIN, Reason.TWIN_SUSPECTED, id="approved, pinned here"
        ),
        pytest.param(machine(approved=True), PIN, OTHER_PIN, Reason.CERTIFICATE_NOT_PINNED, id="approved, no pin"),
        pytest.param(lost(), PIN, OTHER_PIN, Reason.SELF_REPORTED, id="sent"),
        pytest.param(lost(pin=OTHER_PIN), THIRD_PIN, OTHER_PIN, Reason.FOUND_UNDER_PIN, id="re-pinned there"),
        pytest.param(lost(pin=OTHER_PIN), OTHER_PIN, THIRD_PIN, Reason.TWIN_SUSPECTED, id="re-pinned here"),
        pytest.param(machine(), PIN, PIN, Reason.UNCHANGED, id="one box with two addresses"),
    ],
)
def test_twins(about: TalosMachine, here: str, there: str, reason: Reason) -> None:
    decision = decide(twin(about, here=here, there=there))
    assert decision.reason is reason
    if reason is Reason.TWIN_SUSPECTED:
        assert DECLARED in decision.message
        assert ELSEWHERE in decision.message
    if decision.outcome is Outcome.RECORDED:
        assert decision.after == ELSEWHERE


def test_a_twin_at_another_site_is_seen_over_all_pictures() -> None:
    here = facts(machine(), discovery((ELSEWHERE, PIN)))
    far = picture((DECLARED, OTHER_PIN), site="far")
    assert decide(msgspec.structs.replace(here, pictures=(*here.pictures, far))).reason is Reason.TWIN_SUSPECTED


def test_the_pinned_box_is_taken_before_others() -> None:
    decision = decide(facts(machine(pin=PIN), discovery((THIRD, OTHER_PIN), (ELSEWHERE, PIN))))
    assert (decision.outcome, decision.after) == (Outcome.RECORDED, ELSEWHERE)
    wiped = decide(facts(lost(pin=OTHER_PIN), discovery((THIRD, PIN), (ELSEWHERE, OTHER_PIN))))
    assert (wiped.reason, wiped.after) == (Reason.FOUND_UNDER_PIN, ELSEWHERE)


def test_the_pinned_box_is_not_taken_at_an_address_that_may_not_be_dialled() -> None:
    picture_of_two = discovery((THIRD, PIN), ("10.244.0.1", OTHER_PIN))
    assert decide(facts(lost(pin=OTHER_PIN), picture_of_two)).outcome is Outcome.REFUSED


@pytest.mark.parametrize("told", [node, lookup])
@pytest.mark.parametrize(
    ("about", "addresses", "reason"),
    [
        pytest.param(lost(), (ELSEWHERE,), Reason.NODE_MOVED, id="lost, news"),
        pytest.param(lost(hostname="", node_name="worker-1"), (ELSEWHERE,), Reason.NODE_MOVED, id="by learned name"),
        pytest.param(lost(approved=False, pin=""), (ELSEWHERE,), Reason.NODE_MOVED, id="approval and pin withdrawn"),
        pytest.param(lost(sent_to=""), (ELSEWHERE,), Reason.CONFIGURATION_NOT_SENT, id="never sent"),
        pytest.param(lost(ready=Ready.CONVERGED), (ELSEWHERE,), Reason.STILL_READABLE, id="readable"),
        pytest.param(lost(ready=Ready.CONFIGURATION_SENT), (ELSEWHERE,), Reason.STILL_READABLE, id="just sent"),
        pytest.param(lost(ready=Ready.CREDENTIALS_REJECTED), (ELSEWHERE,), Reason.STILL_READABLE, id="our fault"),
        pytest.param(lost(ready=None), (ELSEWHERE,), Reason.STILL_READABLE, id="nothing known"),
        pytest.param(lost(node_addresses=(ELSEWHERE,)), (ELSEWHERE,), Reason.NOT_NEWS, id="listed before"),
        pytest.param(
            lost(node_addresses=(THIRD, DECLARED)), (THIRD, ELSEWHERE), Reason.NODE_MOVED, id="one of two is news"
        ),
        pytest.param(
            lost(node_addresses=(THIRD, ELSEWHERE)), (ELSEWHERE, THIRD), Reason.NOT_NEWS, id="order is no news"
        ),
    ],
)
def test_what_a_node_says(told: Any, about: TalosMachine, addresses: tuple[str, ...], reason: Reason) -> None:
    decision = decide(facts(about, told(*addresses)))
    assert decision.reason is reason
    assert decision.after == (ELSEWHERE if reason is Reason.NODE_MOVED else DECLARED)


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (lost(), Reason.PROVEN),
        (lost(ready=Ready.CONVERGED), Reason.PROVEN),
        (lost(approved=False, pin=""), Reason.PROVEN),
        (lost(node_addresses=(ELSEWHERE,)), Reason.PROVEN),
        (machine(approved=True, pin=PIN, sent_to=PIN), Reason.PROVEN),
        (machine(sent_to="adopted"), Reason.PROVEN),
        (machine(approved=True, pin=PIN), Reason.CONFIGURATION_NOT_SENT),
    ],
)
def test_what_was_read(about: TalosMachine, reason: Reason) -> None:
    assert decide(facts(about, read(ELSEWHERE))).reason is reason


@pytest.mark.parametrize(
    ("about", "observation", "settles"),
    [
        (machine(), discovery(DECLARED), True),
        (lost(), discovery(DECLARED), False),
        (lost(pin=OTHER_PIN), discovery(DECLARED), True),
        (lost(pin=THIRD_PIN), discovery(DECLARED), False),
        (lost(pin=OTHER_PIN, ready=Ready.CONVERGED), discovery(DECLARED), False),
        (machine(approved=True), discovery(DECLARED), False),
        (lost(), node(DECLARED), True),
        (lost(ready=Ready.CONVERGED), node(DECLARED), False),
        (lost(node_addresses=(DECLARED,)), node(DECLARED), False),
        (lost(sent_to=""), node(DECLARED), False),
        (machine(), read(DECLARED), False),
        (lost(), read(DECLARED), True),
    ],
)
def test_what_an_unchanged_observation_settles(
    *, about: TalosMachine, observation: EndpointObserved, settles: bool
) -> None:
    decision = decide(facts(about, observation))
    assert decision.outcome is Outcome.UNCHANGED
    assert decision.settles is settles
