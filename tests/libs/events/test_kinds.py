"""Subjects of all kinds beside each other: no two kinds, and no two names of one kind, ever share one."""

from collections.abc import Callable

from hypothesis import assume, given
from hypothesis import strategies as st

from libs.events import subjects

names = (
    st.text(max_size=80) | st.text(alphabet="ab-_.* >", max_size=70) | st.text(alphabet="a", min_size=60, max_size=70)
)

OF_TWO: tuple[Callable[[str, str], str], ...] = (
    subjects.observed_discovery,
    subjects.sighted,
    subjects.observed_lookup,
    subjects.observed_read,
    lambda namespace, name: subjects.decided("recorded", namespace, name),
    lambda namespace, name: subjects.decided("refused", namespace, name),
    lambda namespace, name: subjects.machine("registered", namespace, name),
)
OF_ONE: tuple[Callable[[str], str], ...] = (
    subjects.observed_node,
    subjects.dead,
    lambda key: subjects.decided_unmatched("refused", key),
)


@given(st.tuples(names, names), st.tuples(names, names))
def test_subjects_are_injective(one: tuple[str, str], other: tuple[str, str]) -> None:
    for make in OF_TWO:
        assert (make(*one) == make(*other)) is (one == other)
    for make_one in OF_ONE:
        assert (make_one(one[0]) == make_one(other[0])) is (one[0] == other[0])


@given(names, names)
def test_no_two_kinds_of_news_share_a_subject(one: str, other: str) -> None:
    assume(one != "_")  # no namespace is called so
    made = [make(one, other) for make in OF_TWO] + [make(one) for make in OF_ONE]
    assert len(set(made)) == len(made)
