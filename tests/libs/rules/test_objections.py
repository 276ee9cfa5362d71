"""The rules that hold for every source: a good case, then one fact broken at a time."""

from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest

from libs.endpoint import Endpoint
from libs.events import Outcome
from libs.identity import Identity
from libs.machine import Ready, Source, TalosMachine
from libs.machine.model import ManagedFields
from libs.rules import RULES, Facts, Limits, Reason, Settled, decide
from tests.libs.rules.given import (
    DECLARED,
    EDITED,
    IDENTITY,
    LIMITS,
    NOW,
    OTHER_PIN,
    PIN,
    SEEN_AT,
    discovery,
    facts,
    lookup,
    lost,
    machine,
    node,
    read,
)

ELSEWHERE = "10.0.0.9"
GOOD = facts(machine(), discovery(ELSEWHERE))
SECOND = timedelta(seconds=1)


def broken(base: Facts = GOOD, **changes: Any) -> Facts:
    return msgspec.structs.replace(base, **changes)


def test_the_good_case_is_recorded() -> None:
    decision = decide(GOOD)
    assert (decision.outcome, decision.reason) == (Outcome.RECORDED, Reason.NOT_APPROVED)
    assert (decision.before, decision.after) == (DECLARED, ELSEWHERE)
    assert decision.settles


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"machine": None}, Reason.UNKNOWN_MACHINE, id="nobody's"),
        pytest.param(
            {"observation": discovery(ELSEWHERE, identity=Identity(serial_number="else1"))},
            Reason.UNKNOWN_MACHINE,
            id="another box",
        ),
        pytest.param({"rivals": ("a/b",)}, Reason.AMBIGUOUS_IDENTITY, id="two machines"),
        pytest.param({"machine": None, "rivals": ("a/b", "a/c")}, Reason.AMBIGUOUS_IDENTITY, id="two, none chosen"),
        pytest.param(
            {"observation": discovery(ELSEWHERE, identity=msgspec.structs.replace(IDENTITY, serial_number="else1"))},
            Reason.AMBIGUOUS_IDENTITY,
            id="contradicting signals",
        ),
        pytest.param({"observation": discovery()}, Reason.ADDRESS_NOT_DIALABLE, id="no address"),
        pytest.param({"observation": discovery("host.example")}, Reason.ADDRESS_NOT_DIALABLE, id="a name"),
        pytest.param({"claimed": {Endpoint(ELSEWHERE): "a/b"}}, Reason.ADDRESS_NOT_DIALABLE, id="another's"),
        pytest.param({"observed_at": EDITED + SECOND / 2}, Reason.PREDATES_SPEC, id="just after the edit"),
        pytest.param({"settled": Settled(NOW, "x")}, Reason.SUPERSEDED, id="settled later"),
        pytest.param({"machine": machine(observed_at=NOW)}, Reason.SUPERSEDED, id="recorded later"),
        pytest.param({"observed_at": NOW - timedelta(minutes=5) - SECOND}, Reason.TOO_OLD, id="too old"),
    ],
)
def test_one_broken_fact_is_enough(changes: dict[str, Any], reason: Reason) -> None:
    decision = decide(broken(**changes))
    assert decision.outcome is Outcome.REFUSED
    assert decision.reason is reason
    assert decision.after == decision.before
    assert decision.message
    assert not decision.settles


def test_the_first_objection_wins() -> None:
    """Everything is wrong at once; mending the facts one by one shows the rules in their order."""
    bad = facts(
        None,
        discovery("0.0.0.0", identity=Identity(serial_number="else1")),
        settled=Settled(NOW, "x"),
        observed_at=EDITED - timedelta(days=9),
    )
    approved = machine(approved=True)
    order: list[tuple[dict[str, Any], Reason]] = [
        ({}, Reason.UNKNOWN_MACHINE),
        ({"machine": approved, "rivals": ("a/b",)}, Reason.AMBIGUOUS_IDENTITY),
        ({"rivals": (), "observation": discovery("0.0.0.0")}, Reason.ADDRESS_NOT_DIALABLE),
        ({"observation": discovery(ELSEWHERE)}, Reason.PREDATES_SPEC),
        ({"machine": machine(approved=True, edited=None, created=None)}, Reason.SUPERSEDED),
        ({"settled": None}, Reason.TOO_OLD),
        ({"observed_at": SEEN_AT}, Reason.CERTIFICATE_NOT_PINNED),
    ]
    for mended, reason in order:
        bad = broken(bad, **mended)
        assert decide(bad).reason is reason
    unchanged = broken(bad, observation=discovery(DECLARED), settled=Settled(NOW, "x"), observed_at=EDITED)
    assert decide(unchanged).outcome is Outcome.UNCHANGED, "what changes nothing comes before all that may object"
    names = [rule.__name__ for rule in RULES]
    assert names.index("nothing_moved") == 2


@pytest.mark.parametrize(
    ("about", "observation"),
    [
        pytest.param(machine(), discovery(DECLARED), id="where declared"),
        pytest.param(machine(observed=ELSEWHERE), discovery(ELSEWHERE), id="where observed"),
        pytest.param(machine(), discovery("10.0.0.7", DECLARED), id="among several"),
        pytest.param(machine(), discovery("::ffff:10.0.0.1"), id="IPv4-mapped"),
        pytest.param(machine(endpoint="10.0.0.1:50000"), discovery(DECLARED), id="with the default port"),
        pytest.param(machine(endpoint="[2001:DB8::1]:50001"), discovery("2001:db8:0::1"), id="IPv6 and port"),
        pytest.param(lost(), node(DECLARED), id="Node"),
        pytest.param(lost(), lookup("10.0.0.7", DECLARED), id="lookup"),
        pytest.param(lost(), read(DECLARED), id="read"),
        pytest.param(machine(approved=True, pin=PIN, sent_to=PIN), discovery(DECLARED), id="self-reported"),
    ],
)
def test_unchanged_where_it_is_dialled(about: TalosMachine, observation: Any) -> None:
    decision = decide(facts(about, observation))
    assert (decision.outcome, decision.reason) == (Outcome.UNCHANGED, Reason.UNCHANGED)
    assert decision.after == decision.before


def test_an_observation_out_of_force_is_not_where_it_is_dialled() -> None:
    edited = machine(observed=ELSEWHERE, observed_for="10.0.0.5")
    assert decide(facts(edited, discovery(ELSEWHERE))).outcome is Outcome.RECORDED


def test_a_dns_name_stands_for_what_it_resolves_to() -> None:
    named = machine(endpoint="node.example:50001")
    known = facts(named, discovery(ELSEWHERE), resolved={"node.example": (ELSEWHERE,)})
    assert decide(known).outcome is Outcome.UNCHANGED
    unknown = decide(facts(named, discovery(ELSEWHERE)))
    assert (unknown.outcome, unknown.after) == (Outcome.RECORDED, f"{ELSEWHERE}:50001")


def test_two_certificates_are_never_unchanged() -> None:
    decision = decide(facts(machine(), discovery((DECLARED, PIN), (ELSEWHERE, OTHER_PIN))))
    assert decision.reason is Reason.TWIN_SUSPECTED


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "169.254.10.1",
        "fe80::1",
        "fe80::1%eth0",
        "::ffff:169.254.0.1",
        "10.244.1.2",
        "::ffff:10.244.1.2",
        "10.0.0.9:50001",
        "",
    ],
)
def test_addresses_that_are_never_dialled(address: str) -> None:
    for source in (discovery(address), node(address), read(address)):
        about = machine() if source.source is Source.DISCOVERY else lost()
        assert decide(facts(about, source)).reason is Reason.ADDRESS_NOT_DIALABLE


def test_exceptions_to_denied_ranges() -> None:
    assert decide(facts(machine(), discovery("10.244.7.2"))).after == "10.244.7.2"
    limits = Limits(
        allowed=tuple(
            map(ip_network, ("127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/8", "224.0.0.0/4", "fe80::/10", "::/0"))
        )
    )
    assert decide(broken(observation=discovery("127.3.0.1"), limits=limits)).after == "127.3.0.1"
    for never in ("169.254.1.1", "0.0.0.0", "224.0.0.1", "fe80::1"):
        assert decide(broken(observation=discovery(never), limits=limits)).reason is Reason.ADDRESS_NOT_DIALABLE


def test_a_proven_read_may_take_over_another_machines_address() -> None:
    claimed = {Endpoint(ELSEWHERE): "a/b"}
    assert decide(facts(lost(), read(ELSEWHERE), claimed=claimed)).outcome is Outcome.RECORDED
    assert decide(facts(lost(), node(ELSEWHERE), claimed=claimed)).reason is Reason.ADDRESS_NOT_DIALABLE
    other_port = {Endpoint(ELSEWHERE, 50001): "a/b"}
    assert decide(facts(lost(), node(ELSEWHERE), claimed=other_port)).outcome is Outcome.RECORDED


@pytest.mark.parametrize(
    ("endpoint", "addresses", "taken"),
    [
        ("10.0.0.1", ("2001:db8::9", "10.0.0.9", "10.0.0.8"), "10.0.0.9"),
        ("2001:db8::1", ("10.0.0.9", "2001:db8::9"), "2001:db8::9"),
        ("10.0.0.1", ("127.0.0.1", "10.244.0.1", "10.0.0.9"), "10.0.0.9"),
        ("10.0.0.1", ("2001:DB8::9",), "2001:db8::9"),
        ("10.0.0.1:50001", ("10.0.0.9",), "10.0.0.9:50001"),
        ("[2001:db8::1]:50000", ("2001:db8::9",), "[2001:db8::9]:50000"),
        ("node.example", ("10.0.0.9", "2001:db8::9"), "10.0.0.9"),
    ],
)
def test_which_of_several_is_taken(endpoint: str, addresses: tuple[str, ...], taken: str) -> None:
    for about, observation in (
        (machine(endpoint=endpoint), discovery(*addresses)),
        (lost(endpoint=endpoint), node(*addresses)),
        (lost(endpoint=endpoint), read(*addresses)),
    ):
        assert decide(facts(about, observation)).after == taken


def test_the_newest_entry_that_owns_the_endpoint_counts() -> None:
    about = machine()
    entries = (
        *about.metadata.managed_fields,
        ManagedFields(manager="a", time=SEEN_AT, fields={"f:spec": {"f:approved": {}}}),
        ManagedFields(manager="b", time=SEEN_AT, subresource="status", fields={"f:spec": {"f:endpoint": {}}}),
        ManagedFields(manager="c", time=None, fields={"f:spec": {"f:endpoint": {}}}),
        ManagedFields(manager="d", time=SEEN_AT, fields={"f:metadata": {"f:labels": {}}}),
    )
    later = ManagedFields(manager="e", time=SEEN_AT, fields={"f:spec": {"f:endpoint": {}}})

    def with_entries(*them: ManagedFields) -> TalosMachine:
        return msgspec.structs.replace(about, metadata=msgspec.structs.replace(about.metadata, managed_fields=them))

    assert decide(broken(machine=with_entries(*entries))).outcome is Outcome.RECORDED
    assert decide(broken(machine=with_entries(*entries, later))).reason is Reason.PREDATES_SPEC


@pytest.mark.parametrize(("after", "refused"), [(SECOND * 0.999999, True), (SECOND, False)])
def test_a_second_after_the_edit(*, after: timedelta, refused: bool) -> None:
    decision = decide(broken(machine=machine(edited=SEEN_AT - after)))
    assert (decision.reason is Reason.PREDATES_SPEC) is refused


def test_without_a_known_edit_the_creation_counts() -> None:
    younger = machine(edited=None, created=SEEN_AT + SECOND)
    assert decide(broken(machine=younger)).reason is Reason.PREDATES_SPEC
    assert decide(broken(machine=machine(edited=None, created=SEEN_AT))).outcome is Outcome.RECORDED


@pytest.mark.parametrize(
    ("settled", "refused"),
    [
        (Settled(SEEN_AT, "id-2"), True),
        (Settled(SEEN_AT, "id-1"), False),
        (Settled(SEEN_AT, "id-0"), False),
        (Settled(SEEN_AT - SECOND, "id-9"), False),
        (Settled(NOW + 5 * SECOND, "x"), True),
        (Settled(NOW + 6 * SECOND, "x"), False),
    ],
)
def test_the_later_one_wins_and_of_equals_the_larger_id(*, settled: Settled, refused: bool) -> None:
    assert (decide(broken(settled=settled)).reason is Reason.SUPERSEDED) is refused


def test_a_recorded_time_from_the_future_does_not_object() -> None:
    assert decide(broken(machine=machine(observed_at=NOW + 6 * SECOND))).outcome is Outcome.RECORDED
    assert decide(broken(machine=machine(observed_at=NOW + 5 * SECOND))).reason is Reason.SUPERSEDED


@pytest.mark.parametrize(
    ("observation", "limit"),
    [
        (discovery(ELSEWHERE), timedelta(minutes=5)),
        (node(ELSEWHERE), timedelta(hours=1)),
        (lookup(ELSEWHERE), timedelta(hours=1)),
        (read(ELSEWHERE), timedelta(hours=1)),
    ],
)
def test_every_source_has_its_age(observation: Any, limit: timedelta) -> None:
    about = machine() if observation.source is Source.DISCOVERY else lost()
    assert decide(facts(about, observation, observed_at=NOW - limit)).outcome is Outcome.RECORDED
    assert decide(facts(about, observation, observed_at=NOW - limit - SECOND)).reason is Reason.TOO_OLD


@pytest.mark.parametrize("observation", [node(ELSEWHERE, name="worker-2"), lookup(ELSEWHERE, name="worker-2")])
def test_a_node_of_another_name_is_not_this_machines(observation: Any) -> None:
    assert decide(facts(lost(), observation)).reason is Reason.UNKNOWN_MACHINE
    learned = lost(node_name="worker-2")
    assert decide(facts(learned, observation)).outcome is Outcome.RECORDED


@pytest.mark.parametrize(
    ("system_uuid", "reason"),
    [
        ("7c1f0e5a-1111-4222-8333-444455556666", Reason.AMBIGUOUS_IDENTITY),
        ("44454C4C-4200-1035-8052-B3C04F4B4E32", Reason.NODE_MOVED),
        ("00000000-0000-0000-0000-000000000000", Reason.NODE_MOVED),
        ("", Reason.NODE_MOVED),
    ],
)
def test_a_node_whose_uuid_contradicts_moves_nobody(system_uuid: str, reason: Reason) -> None:
    assert decide(facts(lost(), node(ELSEWHERE, system_uuid=system_uuid))).reason is reason


def test_hints_are_named() -> None:
    assert "nodetrail/one" in decide(broken(machine=None, hints=("nodetrail/one",))).message


def test_odd_stored_data_is_no_fault() -> None:
    odd = machine(endpoint="not an endpoint", observed="neither this")
    assert decide(facts(odd, discovery(ELSEWHERE))).after == ELSEWHERE
    assert decide(facts(lost(endpoint="::zz:50000:", node_addresses=("rubbish",)), node(ELSEWHERE))).after == ELSEWHERE


def test_ready_alone_does_not_claim_for_itself() -> None:
    ready = lost(ready=Ready.CONVERGED)
    assert decide(facts(ready, read(ELSEWHERE), limits=LIMITS)).reason is Reason.PROVEN
