"""Where a lost machine may be, and that a silent old address costs no more than its head start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import pytest

from libs import kube
from libs.endpoint import Endpoint, parse_endpoint
from libs.machine import TalosMachine
from services.machine_reconciler import locate
from services.machine_reconciler.facts import Answer, CredentialsRefused, Located, Proven, Silent
from tests.services.machine_reconciler.facts_of import ELSEWHERE, HERE, OTHER, machine
from tests.services.machine_reconciler.fakes import node

PROVEN = Proven(fingerprint=OTHER)
FOUND = Located(proven_at=ELSEWHERE, fingerprint=OTHER)
SILENT = Silent(why="refused")


async def after(seconds: float, answer: Answer) -> Answer:
    await asyncio.sleep(seconds)
    return answer


async def found_after(seconds: float, found: Located) -> Located:
    await asyncio.sleep(seconds)
    return found


def hosts(found: list[Endpoint]) -> list[str]:
    return [endpoint.host for endpoint in found]


def test_candidates_come_from_nodes_spec_and_the_past_each_once() -> None:
    lost = machine(observed="10.0.0.5")
    nodes = [node("one", "10.0.0.7", "10.0.0.5", "::ffff:10.0.0.8", "bad"), node("old", "10.0.0.7", "10.0.0.6")]
    found = locate.candidates(lost, named=nodes, like=[], worked=["10.0.0.4", HERE])
    assert found.complete
    assert hosts(found.places) == ["10.0.0.7", "10.0.0.8", "10.0.0.6", HERE, "10.0.0.4"], (
        "the dial endpoint has failed already"
    )


def test_candidates_are_dialled_on_the_declared_port() -> None:
    lost = machine(endpoint="10.0.0.1:50123", observed="")
    assert _asked(lost, node("one", ELSEWHERE)).places == [Endpoint(ELSEWHERE, 50123)]
    found = locate.candidates(lost, named=[], like=[], worked=[f"{ELSEWHERE}:50999"])
    assert found.places == [Endpoint(ELSEWHERE, 50123)], "an observed address is dialled on the declared port"


def test_candidates_are_bounded() -> None:
    many = node("one", *(f"10.1.{i // 250}.{i % 250}" for i in range(1000)))
    found = _asked(machine(), many)
    assert len(found.places) < locate.CANDIDATES_MAX
    assert not found.complete, "what was cut may be the machine"


def test_nodes_that_only_show_its_uuid_push_nobody_out() -> None:
    """Any kubelet may write the UUID of another box, and as many addresses as it likes."""
    liar = node("liar", *(f"10.1.{i // 250}.{i % 250}" for i in range(1000)))
    lost = machine(observed="10.0.0.5")
    found = locate.candidates(lost, named=[node("one", "10.0.0.7")], like=[liar], worked=["10.0.0.4"])
    assert hosts(found.places)[:3] == ["10.0.0.7", HERE, "10.0.0.4"]
    assert len(found.places) == 3 + locate.LIKE_MAX
    assert not found.complete


async def test_a_place_that_refuses_our_credentials_has_told_nothing() -> None:
    async def prove(place: Endpoint) -> Answer:
        return CredentialsRefused(why="expired") if place.host == ELSEWHERE else SILENT

    places = [parse_endpoint(HERE), parse_endpoint(ELSEWHERE)]
    located = await locate.locate(locate.Candidates(places, complete=True), prove, declared=places[0])
    assert not located.complete


def _asked(lost: TalosMachine, *named: kube.Node) -> locate.Candidates:
    return locate.candidates(lost, named=named, like=[], worked=[])


async def test_the_first_proof_wins_and_the_rest_is_broken_off() -> None:
    cancelled = []

    async def prove(place: Endpoint) -> Answer:
        try:
            return await (after(0.01, PROVEN) if place.host == ELSEWHERE else after(60, SILENT))
        except asyncio.CancelledError:
            cancelled.append(place.host)
            raise

    places = [parse_endpoint(text) for text in (HERE, ELSEWHERE, "10.0.0.3")]
    located = await locate.locate(locate.Candidates(places, complete=True), prove, declared=parse_endpoint(HERE))
    assert (located.proven_at, located.fingerprint) == (f"{ELSEWHERE}:50000", OTHER)
    assert set(cancelled) == {HERE, "10.0.0.3"}


async def test_without_a_proof_the_declared_endpoint_is_reported() -> None:
    async def prove(place: Endpoint) -> Answer:
        return Silent(why=place.host)

    here = parse_endpoint(HERE)
    for complete in (True, False):
        located = await locate.locate(locate.Candidates([here], complete), prove, declared=here)
        assert located == Located(declared=Silent(why=HERE), complete=complete)


async def test_a_name_is_asked_at_what_it_resolves_to_and_a_bad_one_nowhere() -> None:
    asked = []

    async def prove(place: Endpoint) -> Answer:
        asked.append(place.host)
        return PROVEN

    place = parse_endpoint("localhost:50001")
    located = await locate.locate(locate.Candidates([place], complete=True), prove, declared=place)
    assert located.proven_at in ("127.0.0.1:50001", "[::1]:50001")
    nowhere = parse_endpoint("no-such-host.invalid")
    assert await locate.locate(locate.Candidates([nowhere], complete=True), prove, declared=nowhere) == Located(
        complete=True
    )


@pytest.mark.parametrize(
    ("reading", "hunting", "answer", "located"),
    [
        pytest.param((0, PROVEN), (60, FOUND), PROVEN, None, id="answers where it is dialled"),
        pytest.param((0.2, PROVEN), (0, FOUND), PROVEN, None, id="keeps its place within the head start"),
        pytest.param((0, SILENT), (0.1, FOUND), SILENT, FOUND, id="refused here, proven elsewhere"),
        pytest.param((0, SILENT), (0, Located()), SILENT, Located(), id="nowhere"),
        pytest.param((0.7, PROVEN), (0, Located()), PROVEN, None, id="slow here, nowhere else"),
    ],
)
async def test_reading_beside_a_hunt(
    reading: tuple[float, Answer], hunting: tuple[float, Located], answer: Answer, located: Located | None
) -> None:
    assert await locate.read_beside(after(*reading), lambda: found_after(*hunting), dial=HERE) == (answer, located)


async def test_a_machine_that_answers_at_once_is_asked_nowhere_else() -> None:
    def hunt() -> Awaitable[Located]:
        raise AssertionError("not wanted")

    assert await locate.read_beside(after(0.01, PROVEN), hunt, dial=HERE) == (PROVEN, None)


async def test_a_silent_old_address_costs_its_head_start_only() -> None:
    began = time.monotonic()
    answer, located = await locate.read_beside(after(60, SILENT), lambda: found_after(0.05, FOUND), dial=HERE)
    assert time.monotonic() - began == pytest.approx(locate.HEAD_START_SECONDS, abs=0.2)
    assert located == FOUND
    assert isinstance(answer, Silent)
    assert HERE in answer.why
