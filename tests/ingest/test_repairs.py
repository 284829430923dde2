"""Which of the venue's candles are fetched, and when."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from artery.ingest import spans
from artery.ingest.repairs import RETRY_FIRST_MS, WINDOWS_MAX, Job, Planner, past
from artery.model.periods import DERIVED, Period
from tests.ingest.make import T0

MINUTE, HOUR = Period(60), Period(3_600)
SETTLE = 4_000
STRETCHES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def members(stretches: list[tuple[int, int]]) -> set[int]:
    return {ms for start, end in stretches for ms in range(start, end)}


@given(STRETCHES, STRETCHES, st.integers(0, 60))
def test_stretches_are_sets_of_time(one: list[tuple[int, int]], other: list[tuple[int, int]], limit: int) -> None:
    a, b = spans.union(one), spans.union(other)
    assert members(a) == members(one)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(a))
    assert members(spans.minus(a, b)) == members(one) - members(other)
    assert members(spans.before(a, limit)) == {ms for ms in members(one) if ms < limit}


def jobs(planner: Planner, now: int) -> list[Job]:
    """All that is due now, done at once."""
    found = []
    while (job := planner.next(now)) is not None:
        found.append(job)
        planner.finished(job)
    return found


def test_a_candle_is_due_once_it_has_been_over_for_a_while() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0 + 61_000, T0 + 62_000)
    over = T0 + 120_000
    assert jobs(planner, over + SETTLE - 1) == []
    assert jobs(planner, over + SETTLE) == [Job("BTC", MINUTE, T0 + 60_000, T0 + 120_000)]
    assert jobs(planner, over + 10 * SETTLE) == []


def test_every_period_that_a_hole_touches_is_repaired_and_no_other_candle() -> None:
    planner = Planner(("BTC", "ETH"), DERIVED, SETTLE)
    planner.need("ETH", T0 + 100_000, T0 + 130_000)
    done = jobs(planner, T0 + 2 * 86_400_000)
    assert {(job.coin, job.period) for job in done} == {("ETH", period) for period in DERIVED}
    for job in done:
        assert job.start_ms == job.period.start(T0 + 100_000)
        assert job.end_ms == job.period.start(T0 + 130_000) + job.period.ms


def test_adjacent_candles_are_one_request_and_distant_ones_are_two() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0, T0 + 59_000)
    planner.need("", T0 + 60_000, T0 + 150_000)
    planner.need("", T0 + 600_000, T0 + 600_001)
    found = jobs(planner, T0 + 3_600_000)
    assert [(job.start_ms - T0, job.end_ms - T0) for job in found] == [(600_000, 660_000), (0, 180_000)]


def test_what_was_done_is_not_done_again_whoever_says_the_hole() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0, T0 + 30_000)
    (job,) = jobs(planner, T0 + 100_000)
    planner.need("", T0 + 10_000, T0 + 59_000)
    assert jobs(planner, T0 + 200_000) == []
    again = Planner(("BTC",), (MINUTE,), SETTLE)
    again.already(job.key, [(job.start_ms, job.end_ms)])
    again.need("", T0, T0 + 30_000)
    assert jobs(again, T0 + 200_000) == []


def test_a_failure_is_tried_again_later_and_later_and_holds_up_nobody_else() -> None:
    planner = Planner(("BTC", "ETH"), (MINUTE,), SETTLE)
    planner.need("", T0, T0)
    now = T0 + 100_000
    job = planner.next(now)
    assert job is not None
    planner.failed(job, now, again=True)
    other = planner.next(now)
    assert other is not None
    assert other.coin != job.coin
    planner.finished(other)
    assert planner.next(now + RETRY_FIRST_MS - 1) is None
    assert planner.next(now + RETRY_FIRST_MS) == job
    planner.failed(job, now + RETRY_FIRST_MS, again=True)
    assert planner.next(now + 2 * RETRY_FIRST_MS) is None
    assert planner.next(now + 3 * RETRY_FIRST_MS) == job


def test_what_cannot_be_had_is_given_up() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0, T0)
    job = planner.next(T0 + 100_000)
    assert job is not None
    planner.failed(job, T0 + 100_000, again=False)
    assert planner.next(T0 + 10_000_000) is None


def test_one_job_of_a_market_and_period_is_under_way_at_a_time() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0, T0)
    assert planner.next(T0 + 100_000) is not None
    planner.need("", T0 + 600_000, T0 + 600_000)
    assert planner.next(T0 + 1_000_000) is None


def test_a_long_hole_is_fetched_newest_first_in_pieces_of_bounded_size() -> None:
    planner = Planner(("BTC",), (MINUTE,), SETTLE)
    planner.need("", T0, T0 + 2 * WINDOWS_MAX * MINUTE.ms)
    found = jobs(planner, T0 + 3 * WINDOWS_MAX * MINUTE.ms)
    assert all((job.end_ms - job.start_ms) // MINUTE.ms <= WINDOWS_MAX for job in found)
    assert [job.end_ms for job in found] == sorted((job.end_ms for job in found), reverse=True)
    assert spans.union((job.start_ms, job.end_ms) for job in found) == [(T0, T0 + (2 * WINDOWS_MAX + 1) * MINUTE.ms)]


def test_the_past_is_fetched_shortest_period_first_and_reaches_further_back_for_longer_ones() -> None:
    found = past(("BTC", "ETH"), DERIVED, 3.0, T0 + 30_000)
    assert [(job.coin, str(job.period)) for job in found[:3]] == [("BTC", "1m"), ("ETH", "1m"), ("BTC", "5m")]
    rows = {str(job.period): (job.end_ms - job.start_ms) // job.period.ms for job in found}
    assert rows == {"1m": 4_320, "5m": 1_500, "15m": 1_500, "1h": 1_500, "4h": 1_500, "1d": 1_500}
    assert all(job.end_ms <= T0 + 30_000 < job.end_ms + job.period.ms for job in found)
    assert past(("BTC",), (MINUTE,), 0.0, T0) == []


def test_repairs_come_before_the_past_and_the_past_needs_no_repair() -> None:
    planner = Planner(("BTC",), (MINUTE, HOUR), SETTLE)
    planner.need("", T0 - 600_000, T0)
    planner.add_past(past(("BTC",), (MINUTE, HOUR), 1.0, T0))
    found = jobs(planner, T0 + 60_000 + SETTLE)
    assert [(job.first, job.period) for job in found] == [(False, MINUTE), (True, MINUTE), (True, HOUR)]
    assert found[0].start_ms == T0
    assert found[1].request_id("sim") == "own:first:sim:BTC:1m"
    assert found[0].request_id("sim") == f"own:repair:sim:BTC:1m:{T0}:{T0 + 60_000}"


HOLES = st.lists(st.tuples(st.integers(0, 7_200_000), st.integers(0, 900_000)), min_size=1, max_size=8)


@given(HOLES, st.integers(0, 10_000_000))
def test_every_candle_that_touches_a_hole_is_fetched_once_it_is_over(holes: list[tuple[int, int]], later: int) -> None:
    planner = Planner(("BTC",), (MINUTE, HOUR), SETTLE)
    for start, length in holes:
        planner.need("BTC", T0 + start, T0 + start + length)
    now = T0 + later
    done: dict[Period, list[tuple[int, int]]] = {MINUTE: [], HOUR: []}
    for job in jobs(planner, now):
        done[job.period].append((job.start_ms, job.end_ms))
    for period in (MINUTE, HOUR):
        touched = {
            at
            for start, length in holes
            for at in range(period.start(T0 + start), T0 + start + length + 1, period.ms)
            if at + period.ms + SETTLE <= now
        }
        fetched = {at for start, end in done[period] for at in range(start, end, period.ms)}
        assert fetched == touched
