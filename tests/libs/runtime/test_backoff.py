from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from libs.runtime import Backoff


@given(st.floats(0.01, 10), st.floats(10, 1000), st.floats(0, 1), st.integers())
def test_pauses_grow_and_stay_within_bounds(first: float, limit: float, jitter: float, seed: int) -> None:
    backoff = Backoff(first, limit, jitter, Random(seed))
    whole = first
    for _ in range(20):
        pause = backoff.next()
        assert whole * (1 - jitter) <= pause <= whole <= limit
        whole = min(whole * 2, limit)


def test_without_jitter_it_doubles_from_one_second_to_two_minutes() -> None:
    backoff = Backoff(jitter=0)
    pauses = [backoff.next() for _ in range(10)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 64, 120]
    assert all(later >= earlier for earlier, later in pairwise(pauses))
    backoff.reset()
    assert backoff.next() == 1


def test_two_clients_do_not_keep_step() -> None:
    one, other = Backoff(random=Random(1)), Backoff(random=Random(2))
    assert [one.next() for _ in range(5)] != [other.next() for _ in range(5)]
