"""Events: repeats are counted, a noisy machine is held to its bounds, memory too."""

from datetime import UTC, datetime, timedelta

from libs.kube import told

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_repeat_is_the_same_event_counted() -> None:
    memory = told.Told()
    first = memory.next("uid", "box-1", "Normal", "Recorded", "text", now=NOW)
    again = memory.next("uid", "box-1", "Normal", "Recorded", "text", now=NOW + timedelta(seconds=9))
    assert first is not None
    assert again is not None
    assert (again.name, again.count, again.first, again.last) == (first.name, 2, NOW, NOW + timedelta(seconds=9))


def test_other_words_or_another_machine_are_another_event() -> None:
    memory = told.Told()
    told_of = [
        memory.next(uid, name, *words, now=NOW)
        for uid, name, words in [
            ("uid", "box-1", ("Normal", "Recorded", "text")),
            ("uid", "box-1", ("Normal", "Recorded", "other text")),
            ("uid", "box-1", ("Warning", "Recorded", "text")),
            ("uid2", "box-1", ("Normal", "Recorded", "text")),
        ]
    ]
    assert all(telling is not None and telling.count == 1 for telling in told_of)
    assert len({telling.name for telling in told_of if telling}) == 4


def test_a_noisy_machine_is_cut_off_and_let_in_again_slowly() -> None:
    memory = told.Told()

    def said(start: int, now: datetime) -> int:
        return sum(memory.next("uid", "box-1", str(number), now=now) is not None for number in range(start, start + 50))

    assert said(0, NOW) == told.BURST
    assert said(100, NOW + timedelta(seconds=told.REFILL_SECONDS - 1)) == 0
    assert said(200, NOW + timedelta(seconds=told.REFILL_SECONDS)) == 1
    assert memory.next("other", "box-2", "text", now=NOW) is not None
    assert said(300, NOW + timedelta(days=30)) == told.BURST


def test_memory_is_bounded() -> None:
    memory = told.Told()
    first = memory.next("uid-0", "box", "text", now=NOW)
    for number in range(1, told.REMEMBERED_MAX + 1):
        memory.next(f"uid-{number}", "box", "text", now=NOW)
    again = memory.next("uid-0", "box", "text", now=NOW)
    assert first is not None
    assert again is not None
    assert (again.count, again.name != first.name) == (1, True)
    assert len(memory._tellings) == len(memory._buckets) == told.REMEMBERED_MAX


def test_a_clock_that_goes_back_gives_no_credit() -> None:
    memory = told.Told()
    for number in range(told.BURST):
        memory.next("uid", "box", str(number), now=NOW)
    assert memory.next("uid", "box", "more", now=NOW - timedelta(days=1)) is None
