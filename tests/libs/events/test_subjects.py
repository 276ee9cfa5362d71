"""Subjects: whatever comes from outside becomes one safe token, and different things get different ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.events import subjects

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@given(st.text())
def test_any_text_is_one_safe_token(text: str) -> None:
    assert SAFE.fullmatch(subjects.token(text))


@given(st.lists(st.text(alphabet="aZ0_-.*> é", max_size=70), unique=True, max_size=8))
def test_different_texts_have_different_tokens(texts: list[str]) -> None:
    assert len({subjects.token(text) for text in texts}) == len(texts)


@given(st.text())
def test_an_encoded_token_is_nobody_elses_name(text: str) -> None:
    token = subjects.token(text)
    assert token == text or subjects.token(token) != token


@pytest.mark.parametrize("name", ["node-1", "CP_1", "a", "x" * 63])
def test_a_name_that_is_safe_stays_readable(name: str) -> None:
    assert subjects.token(name) == name


def test_each_observation_tells_its_source() -> None:
    assert {
        subjects.source_of(subject)
        for subject in (
            subjects.observed_discovery("site", "id"),
            subjects.observed_node("a.b"),
            subjects.observed_lookup("ns", "m"),
            subjects.observed_read("ns", "m"),
        )
    } == {"discovery", "node", "lookup", "read"}


@pytest.mark.parametrize(
    "subject",
    ["nodetrail.decided.recorded.ns.m", "nodetrail.observed", "other.observed.node.x", "nodetrail.observed.node"],
)
def test_what_is_no_observation_has_no_source(subject: str) -> None:
    assert subjects.source_of(subject) is None


def test_a_site_is_read_from_the_subject_of_discovery_alone() -> None:
    assert subjects.site_of(subjects.observed_discovery("rack-1", "id")) == "rack-1"
    assert subjects.site_of(subjects.observed_node("rack-1")) is None


def test_every_subject_is_captured_by_one_stream() -> None:
    made = [
        subjects.observed_discovery("s", "i"),
        subjects.sighted("s", "cp"),
        subjects.observed_node("n"),
        subjects.observed_lookup("ns", "m"),
        subjects.observed_read("ns", "m"),
        subjects.decided("recorded", "ns", "m"),
        subjects.decided_unmatched("refused", "i"),
        subjects.machine("registered", "ns", "m"),
        subjects.dead("consumer"),
    ]
    captured = [
        [
            name
            for name, filters in (("T", subjects.TRAIL_SUBJECTS), ("S", subjects.SIGHTINGS_SUBJECTS))
            if _match(s, filters)
        ]
        for s in made
    ]
    assert captured == [["S"], ["S"], *[["T"]] * 7]
    assert not _match("nodetrail.api.where", (*subjects.TRAIL_SUBJECTS, *subjects.SIGHTINGS_SUBJECTS))


def _match(subject: str, filters: tuple[str, ...]) -> bool:
    return any(subject.startswith(text.removesuffix(">")) for text in filters)
