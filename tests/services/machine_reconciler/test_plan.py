"""The table of what is done about a machine: one good case of each kind, then one fact broken at a time."""

from __future__ import annotations

import itertools

import pytest

from libs.machine import Ready
from services.machine_reconciler.facts import (
    Answer,
    Configured,
    Content,
    CredentialsRefused,
    Facts,
    InMaintenance,
    Located,
    Place,
    Proven,
    Silent,
    Stranger,
)
from services.machine_reconciler.plan import plan
from services.machine_reconciler.steps import Again, Follow, Hunt, Look, Miss, Read, Send, Show, Step
from tests.services.machine_reconciler.facts_of import (
    BROKEN,
    ELSEWHERE,
    HERE,
    OTHER,
    OTHER_BOX,
    PIN,
    PINNED_BOX,
    READ,
    USABLE,
    never_sent,
    sent,
)

SILENT = Silent(why="cannot connect to 10.0.0.1:50000: refused")
STRANGER = Stranger(why="another node of the same cluster answers at 10.0.0.1:50000")
CONFIGURED = Configured(fingerprint=OTHER)
REFUSED = CredentialsRefused(why="our certificate has expired")
NOBODY = Located(complete=True)
FOUND = Located(proven_at=f"{ELSEWHERE}:50000", fingerprint=OTHER)


def shown(step: Step) -> Ready | None:
    return step.verdict.reason if isinstance(step, Show | Hunt | Follow | Miss) else None


def message(step: Step) -> str:
    assert isinstance(step, Show | Hunt | Follow | Miss)
    return step.verdict.message


def test_an_approved_pinned_box_is_sent_its_configuration() -> None:
    assert plan(never_sent()) == Send(fingerprint=PIN)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        pytest.param({"spec_approved": False}, Ready.AWAITING_APPROVAL, id="not approved"),
        pytest.param({"configuration": BROKEN}, Ready.SECRET_INVALID, id="configuration unusable"),
        pytest.param({"talosconfig": BROKEN}, Ready.SECRET_INVALID, id="talosconfig unusable"),
        pytest.param({"configuration": None}, Ready.CONFIGURATION_MISSING, id="no configuration"),
        pytest.param({"dialled": SILENT}, Ready.UNREACHABLE, id="silent"),
        pytest.param({"dialled": STRANGER}, Ready.IDENTITY_MISMATCH, id="configured stranger"),
        pytest.param({"spec_maintenance_fingerprint": ""}, Ready.CERTIFICATE_NOT_PINNED, id="no pin"),
        pytest.param({"dialled": OTHER_BOX}, Ready.CERTIFICATE_MISMATCH, id="another leaf"),
        pytest.param({"dialled": READ}, Ready.CERTIFICATE_MISMATCH, id="runs already"),
        pytest.param({"dialled": REFUSED}, Ready.CERTIFICATE_MISMATCH, id="runs and refuses us"),
        pytest.param(
            {"dialled": CONFIGURED, "talosconfig": None}, Ready.CERTIFICATE_MISMATCH, id="configured, no talosconfig"
        ),
        pytest.param(
            {"dialled": InMaintenance(fingerprint=PIN, is_it=False)}, Ready.IDENTITY_MISMATCH, id="another identity"
        ),
    ],
)
def test_one_broken_fact_keeps_a_first_send_back(broken: dict[str, object], reason: Ready) -> None:
    assert shown(plan(never_sent(**broken))) == reason


ORDER: list[tuple[dict[str, object], Ready]] = [
    ({"spec_approved": False}, Ready.AWAITING_APPROVAL),
    ({"configuration": BROKEN}, Ready.SECRET_INVALID),
    ({"configuration": None}, Ready.CONFIGURATION_MISSING),
    ({"dialled": SILENT}, Ready.UNREACHABLE),
    ({"dialled": STRANGER}, Ready.IDENTITY_MISMATCH),
    ({"spec_maintenance_fingerprint": ""}, Ready.CERTIFICATE_NOT_PINNED),
    ({"dialled": OTHER_BOX}, Ready.CERTIFICATE_MISMATCH),
]


PAIRS = [pair for pair in itertools.combinations(ORDER, 2) if not pair[0][0].keys() & pair[1][0].keys()]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_upper_row_is_shown_when_two_hold(
    first: tuple[dict[str, object], Ready], second: tuple[dict[str, object], Ready]
) -> None:
    assert shown(plan(never_sent(**(second[0] | first[0])))) == first[1]


def test_both_certificates_are_shown_when_they_differ() -> None:
    text = message(plan(never_sent(dialled=OTHER_BOX)))
    assert PIN in text
    assert OTHER in text


def test_secret_and_key_are_named() -> None:
    assert message(plan(never_sent(configuration=BROKEN))) == BROKEN.problem


@pytest.mark.parametrize("facts", [never_sent(dialled=None), never_sent(dialled=None, spec_approved=False)])
def test_what_answers_is_looked_at_first(facts: Facts) -> None:
    assert plan(facts) == Look(at=Place.DIALLED)


def test_nothing_is_dialled_while_a_secret_is_missing() -> None:
    assert shown(plan(never_sent(dialled=None, configuration=BROKEN))) == Ready.SECRET_INVALID


def test_a_configured_node_is_asked_who_it_is_where_that_is_possible() -> None:
    assert plan(never_sent(dialled=CONFIGURED)) == Read()


@pytest.mark.parametrize("answer", [SILENT, OTHER_BOX])
def test_the_declared_endpoint_is_tried_too_before_an_observed_one_is_blamed(answer: Answer) -> None:
    assert plan(never_sent(dialled=answer, observed=ELSEWHERE)) == Look(at=Place.DECLARED)
    step = plan(never_sent(dialled=answer, observed=ELSEWHERE, declared=PINNED_BOX))
    assert HERE in message(step)
    assert not isinstance(step, Send), "what answers at the dial endpoint decides"


def test_the_pinned_box_at_an_observed_endpoint_is_sent_to_without_looking_elsewhere() -> None:
    assert plan(never_sent(observed=ELSEWHERE)) == Send(fingerprint=PIN)


def test_a_readable_node_with_the_desired_configuration_is_converged() -> None:
    step = plan(sent())
    assert isinstance(step, Show)
    assert (step.verdict.reason, step.verdict.status, step.verdict.again) == (Ready.CONVERGED, "True", Again.REPROBE)


@pytest.mark.parametrize(
    ("changed", "reason", "status"),
    [
        pytest.param({"spec_approved": False}, Ready.CONVERGED, "True", id="approval withdrawn"),
        pytest.param({"spec_maintenance_fingerprint": ""}, Ready.CONVERGED, "True", id="pin withdrawn"),
        pytest.param({"configuration": None}, Ready.CONVERGED, "True", id="nothing to compare with"),
        pytest.param(
            {"dialled": Proven(fingerprint=OTHER, equals_desired=False)},
            Ready.CONFIGURATION_DRIFTED,
            "False",
            id="drift",
        ),
        pytest.param({"configuration": BROKEN}, Ready.SECRET_INVALID, "False", id="configuration unusable"),
        pytest.param({"talosconfig": BROKEN}, Ready.SECRET_INVALID, "False", id="talosconfig unusable"),
        pytest.param({"dialled": REFUSED}, Ready.CREDENTIALS_REJECTED, "Unknown", id="credentials refused"),
        pytest.param(
            {"talosconfig": None, "dialled": CONFIGURED}, Ready.CONFIGURATION_SENT, "False", id="no talosconfig"
        ),
        pytest.param(
            {"dialled": PINNED_BOX, "accepted": PIN}, Ready.CONFIGURATION_SENT, "False", id="accepted just now"
        ),
    ],
)
def test_what_a_sent_machine_shows(changed: dict[str, object], reason: Ready, status: str) -> None:
    step = plan(sent(**changed))
    assert isinstance(step, Show)
    assert (step.verdict.reason, step.verdict.status) == (reason, status)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(SILENT, Ready.CURRENT_CONFIG_UNAVAILABLE, id="silent"),
        pytest.param(STRANGER, Ready.IDENTITY_MISMATCH, id="another node"),
        pytest.param(InMaintenance(fingerprint=OTHER, is_it=False), Ready.IDENTITY_MISMATCH, id="another box"),
        pytest.param(OTHER_BOX, Ready.REAPPEARED_IN_MAINTENANCE, id="another leaf"),
    ],
)
def test_a_lost_machine_is_hunted_then_followed_or_missed(answer: Answer, reason: Ready) -> None:
    hunting = plan(sent(dialled=answer))
    assert isinstance(hunting, Hunt)
    following = plan(sent(dialled=answer, located=FOUND))
    assert isinstance(following, Follow)
    missing = plan(sent(dialled=answer, located=NOBODY))
    assert isinstance(missing, Miss)
    assert {shown(hunting), shown(following), shown(missing)} == {reason}


def test_what_the_declared_endpoint_showed_is_told() -> None:
    text = message(plan(sent(dialled=SILENT, observed=ELSEWHERE, located=Located(declared=OTHER_BOX))))
    assert HERE in text
    assert OTHER in text


def test_a_sent_machine_is_read_and_without_talosconfig_looked_at() -> None:
    assert plan(sent(dialled=None)) == Read()
    assert plan(sent(dialled=None, talosconfig=None)) == Look(at=Place.DIALLED)


def test_the_same_boot_is_sent_again_after_a_crash() -> None:
    assert plan(sent(dialled=PINNED_BOX)) == Send(fingerprint=PIN)


REPINNED = {"spec_maintenance_fingerprint": OTHER, "dialled": OTHER_BOX, "located": NOBODY}


def test_a_new_pin_is_sent_to_once_nothing_proves_to_be_the_machine() -> None:
    assert isinstance(plan(sent(**(REPINNED | {"located": None}))), Hunt)
    assert plan(sent(**REPINNED)) == Send(fingerprint=OTHER)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(REPINNED | {"located": FOUND}, id="proven elsewhere"),
        pytest.param(REPINNED | {"located": Located()}, id="not every place has told"),
        pytest.param(REPINNED | {"spec_approved": False}, id="re-pinned, not approved"),
        pytest.param(REPINNED | {"talosconfig": None, "located": None}, id="nothing could prove it"),
        pytest.param(REPINNED | {"dialled": InMaintenance(fingerprint=OTHER, is_it=False)}, id="another identity"),
        pytest.param(REPINNED | {"dialled": InMaintenance(fingerprint="X" * 43 + "=", is_it=True)}, id="a third leaf"),
        pytest.param(REPINNED | {"configuration": None}, id="nothing to send"),
        pytest.param(REPINNED | {"configuration": BROKEN}, id="re-pinned, configuration unusable"),
        pytest.param({"dialled": PINNED_BOX, "spec_approved": False}, id="same boot, not approved"),
        pytest.param({"dialled": PINNED_BOX, "spec_maintenance_fingerprint": ""}, id="same boot, no pin"),
        pytest.param({"dialled": PINNED_BOX, "spec_maintenance_fingerprint": OTHER}, id="same boot, another pin"),
        pytest.param({"dialled": PINNED_BOX, "configuration": BROKEN}, id="same boot, configuration unusable"),
        pytest.param({"dialled": OTHER_BOX, "located": NOBODY}, id="another boot"),
        pytest.param({"spec_maintenance_fingerprint": OTHER}, id="re-pinned while it runs"),
    ],
)
def test_nothing_else_is_ever_a_second_send(broken: dict[str, object]) -> None:
    assert not isinstance(plan(sent(**broken)), Send)


def test_a_send_that_waits_for_a_whole_hunt_says_so() -> None:
    assert "not every place" in message(plan(sent(**(REPINNED | {"located": Located()}))))


@pytest.mark.parametrize("endpoint", ["10.0.0.1:", "fe80::1%eth0", "a b"])
def test_an_endpoint_that_older_data_holds_is_shown_and_nothing_crashes(endpoint: str) -> None:
    for facts, reason in ((never_sent, "Unreachable"), (sent, "CurrentConfigUnavailable")):
        step = plan(facts(spec_endpoint=endpoint, dialled=None))
        assert isinstance(step, Show)
        assert step.verdict.reason == reason
        assert "spec.endpoint" in step.verdict.message


def test_a_pin_that_does_nothing_says_so() -> None:
    assert "pin ignored" in message(plan(sent(spec_maintenance_fingerprint=OTHER)))
    assert "pin ignored" not in message(plan(sent()))


def test_a_wiped_machine_asks_for_a_pin_only_when_it_was_not_found() -> None:
    assert "pin that certificate" in message(plan(sent(dialled=OTHER_BOX, located=NOBODY)))
    assert "pin that certificate" not in message(plan(sent(dialled=OTHER_BOX, located=FOUND)))


ANSWERS: list[Answer | None] = [
    None,
    SILENT,
    STRANGER,
    CONFIGURED,
    REFUSED,
    READ,
    Proven(fingerprint=OTHER),
    PINNED_BOX,
    OTHER_BOX,
    InMaintenance(fingerprint=PIN, is_it=False),
]


def test_a_send_goes_to_the_approved_pinned_certificate_and_every_round_ends() -> None:
    """Over all combinations of facts: what is asked for is always something that was not known before."""
    contents: list[Content | None] = [None, USABLE, BROKEN]
    for make, approved, pin, dialled, declared, located, configuration, talosconfig, observed in itertools.product(
        (never_sent, sent), (True, False), (PIN, OTHER, ""), ANSWERS, (None, SILENT, PINNED_BOX), (None, NOBODY, FOUND),
        contents, contents, ("", ELSEWHERE),
    ):  # fmt: skip
        facts = make(
            spec_approved=approved,
            spec_maintenance_fingerprint=pin,
            dialled=dialled,
            declared=declared,
            located=located,
            configuration=configuration,
            talosconfig=talosconfig,
            observed=observed,
        )
        match plan(facts):
            case Send(fingerprint=fingerprint):
                assert approved
                assert fingerprint == pin
                assert dialled == InMaintenance(fingerprint=pin, is_it=True)
                assert configuration == USABLE
            case Look(at=Place.DIALLED):
                assert dialled is None
            case Look():
                assert declared is None
                assert observed
            case Read():
                assert dialled is None or isinstance(dialled, Configured)
                assert talosconfig == USABLE
            case Hunt():
                assert located is None
                assert talosconfig == USABLE
