"""Where a lost machine may be, and that a silent old address costs no more than its head start."""

from __future__ import annotations

import asyncio
import time

import pytest

from libs.endpoint import Endpoint, parse_endpoint
from services.machine_reconciler import locate
from services.machine_reconciler.facts import Answer, Located, Proven, Silent
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
    found = locate.candidates(lost, nodes, ["10.0.0.4", HERE])
    assert hosts(found) == ["10.0.0.7", "10.0.0.8", "10.0.0.6", HERE, "10.0.0.4"], (
        "the dial endpoint has failed already"
    )


def test_candidates_are_dialled_on_the_declared_port() -> None:
    lost = machine(endpoint="10.0.0.1:50123", observed="")
    assert locate.candidates(lost, [node("one", ELSEWHERE)], []) == [Endpoint(ELSEWHERE, 50123)]


def test_candidates_are_bounded() -> None:
    many = node("one", *(f"10.1.{i // 250}.{i % 250}" for i in range(1000)))
    assert len(locate.candidates(machine(), [many], [])) == locate.CANDIDATES_MAX


async def test_the_first_proof_wins_and_the_rest_is_broken_off() -> None:
    cancelled = []

    async def prove(place: Endpoint) -> Answer:
        try:
            return await (after(0.01, PROVEN) if place.host == ELSEWHERE else after(60, SILENT))
        except asyncio.CancelledError:
            cancelled.append(place.host)
            raise

    places = [parse_endpoint(text) for text in (HERE, ELSEWHERE, "10.0.0.3")]
    located = await locate.locate(places, prove, declared=parse_endpoint(HERE))
    assert (located.proven_at, located.fingerprint) == (f"{ELSEWHERE}:50000", OTHER)
    assert set(cancelled) == {HERE, "10.0.0.3"}


async def test_without_a_proof_the_declared_endpoint_is_reported() -> None:
    async def prove(place: Endpoint) -> Answer:
        return Silent(why=place.host)

    located = await locate.locate([parse_endpoint(HERE)], prove, declared=parse_endpoint(HERE))
    assert located == Located(declared=Silent(why=HERE))


async def test_a_name_is_asked_at_what_it_resolves_to_and_a_bad_one_nowhere() -> None:
    asked = []

    async def prove(place: Endpoint) -> Answer:
        asked.append(place.host)
        return PROVEN

    place = parse_endpoint("localhost:50001")
    located = await locate.locate([place], prove, declared=place)
    assert located.proven_at in ("127.0.0.1:50001", "[::1]:50001")
    nowhere = parse_endpoint("no-such-host.invalid")
    assert await locate.locate([nowhere], prove, declared=nowhere) == Located()


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
    assert await locate.read_beside(after(*reading), found_after(*hunting), dial=HERE) == (answer, located)


async def test_a_silent_old_address_costs_its_head_start_only() -> None:
    began = time.monotonic()
    answer, located = await locate.read_beside(after(60, SILENT), found_after(0.05, FOUND), dial=HERE)
    assert time.monotonic() - began == pytest.approx(locate.HEAD_START_SECONDS, abs=0.2)
    assert located == FOUND
    assert isinstance(answer, Silent)
    assert HERE in answer.why
