"""What a feed may say of time."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.ingest.clock import SETTLE_MS, SLEW, FeedClock
from tests.ingest.make import T0

GRACE = 1_000


def said(clock: FeedClock, times: list[int], *, up: bool = True) -> list[int]:
    """What the clock says when the writer comes round at these times."""
    result = []
    for now in times:
        clock.passed(now)
        told = clock.say(now, up=up)
        if told is not None:
            result.append(told)
    return result


def every(start: int, seconds: float, step: int = 250) -> list[int]:
    return list(range(start, start + int(seconds * 1_000), step))


def test_it_is_said_once_a_second_behind_now_by_the_grace() -> None:
    told = said(FeedClock(0, GRACE), every(T0, 10))
    assert 8 <= len(told) <= 10
    assert all(later // 1_000 == earlier // 1_000 + 1 for earlier, later in itertools.pairwise(told))
    assert all(ts <= T0 + 10_000 - GRACE for ts in told)


@given(st.lists(st.tuples(st.integers(-5_000, 9_000), st.booleans()), max_size=60))
def test_it_only_rises_and_is_silent_while_the_feed_is_down(steps: list[tuple[int, bool]]) -> None:
    clock = FeedClock(T0 - 10_000, GRACE)
    now, last = T0, T0 - 10_000
    for step, up in steps:
        now += step
        clock.passed(now)
        told = clock.say(now, up=up)
        assert up or told is None
        if told is not None:
            assert last < told <= now - GRACE
            last = told


def test_it_never_falls_below_what_an_earlier_leader_said() -> None:
    assert said(FeedClock(T0 + 60_000, GRACE), every(T0, 30)) == []
    assert said(FeedClock(T0 + 5_000, GRACE), every(T0, 30))[0] > T0 + 5_000


def test_what_is_not_written_yet_holds_it_back() -> None:
    clock = FeedClock(0, GRACE)
    for now in every(T0, 5):
        clock.passed(now)
        told = clock.say(now, up=True, waiting_ms=T0 + 2_000)
        assert told is None or told <= T0 + 2_000 - GRACE
    assert clock.said_ms <= T0 + 2_000 - GRACE


def test_after_a_freeze_it_does_not_vouch_for_the_time_that_was_slept_through() -> None:
    clock = FeedClock(0, GRACE)
    said(clock, every(T0, 3))
    woke = T0 + 60_000
    clock.passed(woke)
    first = clock.say(woke, up=True)
    assert first is None or first < T0 + 3_000
    clock.passed(woke + SETTLE_MS)
    assert clock.say(woke + SETTLE_MS, up=True) == woke - GRACE


def test_a_venue_whose_trades_come_late_holds_it_back() -> None:
    clock = FeedClock(0, GRACE)
    for now in every(T0, 5):
        clock.saw(now, now - 2_500)
        clock.passed(now)
        told = clock.say(now, up=True)
        assert told is None or told <= now - 2_500
    late = T0 + 20_000
    assert said(clock, every(late, 2))[-1] >= late  # it is forgotten when the venue is quiet


def test_a_wall_clock_that_was_set_an_hour_ahead_does_not_run_ahead_of_the_trades() -> None:
    clock = FeedClock(0, GRACE)
    said(clock, every(T0, 3))
    for now in every(T0 + 3_603_000, 5):
        clock.saw(now, now - 3_600_000)
        clock.passed(now)
        told = clock.say(now, up=True)
        assert told is None or told <= now - 3_600_000


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_wall_clock_that_is_set_while_the_feed_runs_is_followed_slowly(jump_ms: int) -> None:
    clock = FeedClock(0, GRACE)
    told = []
    for steady in every(0, 60):
        now = T0 + steady + (jump_ms if steady >= 10_000 else 0)
        clock.passed(now, float(steady))
        if said_ms := clock.say(now, up=True):
            told.append((steady, said_ms))
    assert len(told) > 50
    assert all(abs(said_ms - (T0 + steady - GRACE)) <= 60_000 / SLEW + 500 for steady, said_ms in told)
    assert (told[-1][1] - (T0 + told[-1][0]) > 0) == (jump_ms > 0)


def test_a_machine_that_slept_is_not_a_clock_that_was_set() -> None:
    clock = FeedClock(0, GRACE)
    for steady in (*every(0, 3), *every(3_600_000, 3)):
        clock.passed(T0 + steady, float(steady))
    assert clock.say(T0 + 3_603_000, up=True) == T0 + 3_602_500 - GRACE
