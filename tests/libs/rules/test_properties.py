"""What holds for every sequence of observations: who may move whom, order, repetition, and what is never touched."""

from __future__ import annotations

import itertools
from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.events import EndpointObserved, Outcome
from libs.identity import Identity
from libs.machine import READ_FAILED, Ready, Source, TalosMachine, dial_endpoint
from libs.rules import (
    BY_SOURCE,
    RULES,
    Decision,
    Facts,
    Picture,
    Reason,
    Settled,
    decide,
    declared_port,
    endpoint_of,
    lists_dial_endpoint,
    would_be_believed,
)
from tests.libs.rules.given import (
    DECLARED,
    IDENTITY,
    NOW,
    OTHER_PIN,
    PIN,
    THIRD_PIN,
    discovery,
    facts,
    lookup,
    lost,
    machine,
    node,
    read,
)

ADDRESSES = (DECLARED, "10.0.0.2", "10.0.0.3", "2001:db8::4", "127.0.0.1", "10.244.0.9")
few = settings(max_examples=60, deadline=None)
many = settings(max_examples=250, deadline=None)
CERTIFICATES = (PIN, OTHER_PIN, THIRD_PIN, "")


class Told(msgspec.Struct, frozen=True):
    """One observation as it comes out of the stream."""

    id: str
    observation: EndpointObserved
    seconds_ago: int


class World:
    """A machine's status and the writer's memory of it, moved by decisions alone."""

    def __init__(self, about: TalosMachine) -> None:
        self.machine = about
        self.settled: Settled | None = None
        self.pictures: dict[str, Picture] = {}
        self.decisions: list[Decision] = []

    def tell(self, told: Told) -> Decision:
        at = NOW - timedelta(seconds=told.seconds_ago)
        known = self.pictures.get(told.observation.site)
        if told.observation.source is Source.DISCOVERY and (known is None or known.observed_at <= at):
            self.pictures[told.observation.site] = Picture(
                site=told.observation.site, observed_at=at, addresses=told.observation.addresses
            )
        decision = decide(self.facts(told))
        if decision.settles:
            this = Settled(at, told.id)
            self.settled = max(this, self.settled) if self.settled else this
        if decision.outcome is Outcome.RECORDED:
            status = msgspec.structs.replace(
                self.machine.status,
                observed_endpoint=decision.after,
                observed_endpoint_for=self.machine.spec.endpoint,
                observed_at=at,
                observed_source=told.observation.source,
            )
            self.machine = msgspec.structs.replace(self.machine, status=status)
        self.decisions.append(decision)
        return decision

    def facts(self, told: Told) -> Facts:
        return facts(
            self.machine,
            told.observation,
            observation_id=told.id,
            observed_at=NOW - timedelta(seconds=told.seconds_ago),
            settled=self.settled,
            pictures=tuple(self.pictures.values()),
        )


addresses = st.lists(st.sampled_from(ADDRESSES), max_size=3, unique=True)
certified = st.lists(st.tuples(st.sampled_from(ADDRESSES), st.sampled_from(CERTIFICATES)), max_size=3)
half_known = st.sampled_from(
    [IDENTITY, Identity(uuid=IDENTITY.uuid, serial_number="else1"), Identity(serial_number="else1"), Identity()]
)
pictures = st.builds(
    lambda pairs, identity, site: discovery(*pairs, identity=identity, site=site),
    certified,
    half_known,
    st.sampled_from(["near", "far"]),
)
nodes = st.builds(lambda told, listed: told(*listed), st.sampled_from([node, lookup]), addresses)
reads = st.builds(lambda listed: read(*listed), addresses)


def told(
    observations: st.SearchStrategy[EndpointObserved], *, distinct_times: bool = False
) -> st.SearchStrategy[list[Told]]:
    ages = st.integers(min_value=0, max_value=400)
    pairs = st.lists(
        st.tuples(observations, ages), max_size=5, unique_by=(lambda pair: pair[1]) if distinct_times else None
    )
    return pairs.map(lambda found: [Told(f"id-{i}", observation, age) for i, (observation, age) in enumerate(found)])


machines = st.builds(
    machine,
    endpoint=st.sampled_from([DECLARED, f"{DECLARED}:50000", "node.example", "[2001:db8::4]:50001"]),
    observed=st.sampled_from(["", "10.0.0.2", "10.0.0.3"]),
    approved=st.booleans(),
    pin=st.sampled_from(["", PIN, OTHER_PIN]),
    sent_to=st.sampled_from(["", PIN, "adopted"]),
    ready=st.sampled_from([None, *Ready]),
    hostname=st.sampled_from(["", "worker-1"]),
    node_addresses=addresses.map(tuple),
)
never_repinned = st.builds(
    machine,
    observed=st.sampled_from(["", "10.0.0.2"]),
    approved=st.booleans(),
    pin=st.sampled_from(["", PIN]),
    sent_to=st.just(PIN),
    ready=st.sampled_from([None, *Ready]),
    hostname=st.just("worker-1"),
)


@few
@given(never_repinned, told(pictures))
def test_no_self_reports_ever_move_a_sent_machine_that_nobody_re_pinned(about: TalosMachine, them: list[Told]) -> None:
    world = World(about)
    for one in them:
        world.tell(one)
        assert world.machine == about


@few
@given(never_repinned, told(pictures), nodes, st.integers(min_value=0, max_value=400))
def test_no_self_reports_ever_silence_what_others_say_of_a_sent_machine(
    about: TalosMachine, them: list[Told], other: EndpointObserved, age: int
) -> None:
    alone, crowded = World(about), World(about)
    for one in them:
        crowded.tell(one)
    assert crowded.tell(Told("other", other, age)) == alone.tell(Told("other", other, age))


@few
@given(machines, told(pictures | nodes | reads))
def test_no_decision_touches_anything_but_the_observed_endpoint(about: TalosMachine, them: list[Told]) -> None:
    world = World(about)
    before = msgspec.json.encode(about)
    for one in them:
        decision = world.tell(one)
        assert world.machine.spec == about.spec
        assert world.machine.sent_to == about.sent_to
        assert msgspec.json.encode(about) == before
        if decision.outcome is not Outcome.RECORDED:
            assert decision.after == decision.before


@few
@given(machines, told(pictures | nodes | reads))
def test_what_is_recorded_was_observed_and_may_be_dialled(about: TalosMachine, them: list[Told]) -> None:
    world = World(about)
    port = declared_port(about)
    for one in them:
        decision = world.tell(one)
        if decision.outcome is Outcome.RECORDED:
            after = endpoint_of(decision.after, port)
            assert after in {endpoint_of(seen.address, port) for seen in one.observation.addresses}
            assert after is not None
            assert after.host not in {"127.0.0.1", "10.244.0.9"}


def dialled_after(about: TalosMachine, them: list[Told]) -> object:
    """Return where the machine is dialled in the end, however that is written."""
    world = World(about)
    for one in them:
        world.tell(one)
    return endpoint_of(dial_endpoint(world.machine), 50000)


single_addresses = st.sampled_from(ADDRESSES)
one_each = (
    single_addresses.map(lambda one: discovery((one, OTHER_PIN)))
    | single_addresses.map(node)
    | single_addresses.map(lookup)
    | single_addresses.map(read)
)


@many
@given(machines, told(one_each), st.randoms(use_true_random=False), st.integers(min_value=0, max_value=3))
def test_order_and_repetition_do_not_matter(
    about: TalosMachine, them: list[Told], random: object, repeats: int
) -> None:
    in_time = sorted(them, key=lambda one: (-one.seconds_ago, one.id))
    shuffled = in_time + in_time[:repeats]
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis' own Random
    assert dialled_after(about, shuffled) == dialled_after(about, in_time)


@few
@given(machines, told(nodes | reads | certified.map(lambda pairs: discovery(*pairs)), distinct_times=True))
def test_in_any_order_the_end_is_an_address_of_the_newest_that_settled(about: TalosMachine, them: list[Told]) -> None:
    """Of a node with several addresses, which one is dialled may depend on the order; that it is its own may not."""
    for order in itertools.islice(itertools.permutations(them), 24):
        world = World(about)
        for one in order:
            world.tell(one)
        if world.settled is None:
            assert world.machine == about
            continue
        newest = next(one for one in them if one.id == world.settled.observation_id)
        port = declared_port(about)
        dialled = endpoint_of(dial_endpoint(world.machine), port)
        assert dialled in {endpoint_of(seen.address, port) for seen in newest.observation.addresses}


@few
@given(machines, told(pictures | nodes | reads))
def test_the_first_objection_wins(about: TalosMachine, them: list[Told]) -> None:
    world = World(about)
    for one in them:
        at_hand = world.facts(one)
        decision = decide(at_hand)
        objections = [rule for rule in (*RULES, *BY_SOURCE[at_hand.source]) if rule(at_hand) is not None]
        if objections:
            assert decision.rule == objections[0].__name__
        else:
            assert decision.outcome is Outcome.RECORDED
        world.tell(one)


@few
@given(machines, told(pictures | nodes | reads))
def test_the_same_facts_give_the_same_decision(about: TalosMachine, them: list[Told]) -> None:
    world = World(about)
    for one in them:
        at_hand = world.facts(one)
        assert decide(at_hand) == decide(at_hand)
        world.tell(one)


@few
@given(machines, told(pictures | nodes | reads))
def test_the_cheap_answer_is_the_rules_answer(about: TalosMachine, them: list[Told]) -> None:
    """For an address; about another box or Node the rules object before they look at addresses."""
    dial = endpoint_of(dial_endpoint(about), 50000)
    if dial is None or dial.address is None:
        return
    for one in them:
        at_hand = facts(about, one.observation, observed_at=NOW - timedelta(seconds=one.seconds_ago))
        decision = decide(at_hand)
        if decision.reason in {Reason.UNKNOWN_MACHINE, Reason.AMBIGUOUS_IDENTITY}:
            continue
        cheap = lists_dial_endpoint(frozenset({dial}), declared_port(about), one.observation.source, one.observation)
        assert cheap is (decision.outcome is Outcome.UNCHANGED)
        if cheap:
            assert would_be_believed(about, one.observation.source, one.observation) is decision.settles


@few
@given(machines, told(nodes))
def test_a_readable_machine_is_never_moved_by_its_node(about: TalosMachine, them: list[Told]) -> None:
    ready = [condition.reason for condition in about.status.conditions]
    if ready and ready[0] in READ_FAILED:
        return
    world = World(about)
    for one in them:
        world.tell(one)
    assert world.machine == about


@few
@given(told(reads))
def test_a_proof_is_believed_whatever_else_is_said(them: list[Told]) -> None:
    world = World(lost())
    for one in them:
        decision = world.tell(one)
        if decision.outcome is Outcome.REFUSED:
            assert decision.reason in {Reason.ADDRESS_NOT_DIALABLE, Reason.SUPERSEDED}
