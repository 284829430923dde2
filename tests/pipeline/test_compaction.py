"""Which files are joined and which snapshots go; pure."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from artery.lake.state import DAY_MS, HOUR_MS, SMALL_BYTES, File, Snap
from artery.lake.tables import GAPS, OHLC, TRADES
from artery.pipeline.compaction import (
    ANNOUNCED_MAX,
    JOB_BYTES,
    JOIN_OPEN_MIN,
    KEEP_SNAPSHOTS,
    SETTLED_MS,
    Keep,
    expired,
    jobs,
)

TODAY = int(datetime(2026, 11, 18, tzinfo=UTC).timestamp() * 1_000)
NOON = TODAY + 12 * HOUR_MS
KEEP_MS = Keep().ms


def file(low_ms: int, size: int = 1_000, span_ms: int = 10_000, period_s: int = 0) -> File:
    return File("", 1, size, low_ms, low_ms + span_ms, period_s)


def test_an_hour_is_joined_once_it_is_over() -> None:
    files = [file(NOON - 2 * HOUR_MS), file(NOON - 2 * HOUR_MS + 20_000), file(NOON), file(NOON + 20_000)]
    (job,) = jobs(TRADES, files, NOON + 30_000)
    assert (job.low_ms, job.high_ms, job.files) == (NOON - 2 * HOUR_MS, NOON - HOUR_MS, 2)
    assert jobs(TRADES, files[2:], NOON + HOUR_MS + SETTLED_MS - 1) == []
    assert len(jobs(TRADES, files[2:], NOON + HOUR_MS + SETTLED_MS)) == 1


def test_a_day_that_is_over_is_joined_whole_also_if_nobody_ran_when_its_hours_were_over() -> None:
    files = [file(TODAY - DAY_MS + hour * HOUR_MS) for hour in range(24)]
    (job,) = jobs(TRADES, files, NOON)
    assert (job.low_ms, job.high_ms, job.files) == (TODAY - DAY_MS, TODAY, 24)
    assert jobs(TRADES, [file(TODAY - DAY_MS, SMALL_BYTES)] * 24, NOON) == []


def test_a_day_too_large_for_one_job_is_joined_an_hour_at_a_time() -> None:
    many = JOB_BYTES // (SMALL_BYTES - 1) + 2
    files = [file(TODAY - DAY_MS + (n % 2) * HOUR_MS, SMALL_BYTES - 1) for n in range(many)]
    assert [job.high_ms - job.low_ms for job in jobs(TRADES, files, NOON)] == [HOUR_MS, HOUR_MS]


def test_candles_of_today_are_left_alone_and_days_before_wait_until_they_are_many() -> None:
    days = [file(TODAY - n * DAY_MS, period_s=60) for n in range(JOIN_OPEN_MIN)]
    assert jobs(OHLC, days, NOON) == []
    (job,) = jobs(OHLC, [*days, file(TODAY - JOIN_OPEN_MIN * DAY_MS, period_s=60)], NOON)
    assert (job.files, job.period_s) == (JOIN_OPEN_MIN, 60)
    assert job.high_ms <= TODAY
    assert len(jobs(OHLC, days[:3], NOON, join_open=2)) == 1
    last_month = [file(TODAY - 40 * DAY_MS, period_s=60), file(TODAY - 41 * DAY_MS, period_s=60)]
    assert len(jobs(OHLC, last_month, NOON)) == 1


def test_a_table_without_partitions_is_joined_when_its_files_are_many() -> None:
    assert jobs(GAPS, [file(NOON)] * (JOIN_OPEN_MIN - 1), NOON) == []
    assert len(jobs(GAPS, [file(NOON)] * JOIN_OPEN_MIN, NOON)) == 1


@given(
    st.lists(st.tuples(st.integers(1, 400_000), st.sampled_from(["", "store", "other"])), min_size=1, max_size=80),
    st.sets(st.integers(0, 79)),
)
def test_what_someone_may_still_need_never_expires(steps: list[tuple[int, str]], pinned: set[int]) -> None:
    at, chain = NOON, []
    for number, (step_ms, query) in enumerate(steps):
        at += step_ms
        chain.append(Snap(number, number - 1, at, number, "append", query))
    now = at + 1_000
    gone = set(expired(chain, chain[-1].id, Keep(pinned), now))
    left = [one for one in chain if one.id not in gone]
    assert chain[-KEEP_SNAPSHOTS:] == left[-KEEP_SNAPSHOTS:]
    assert not gone & pinned
    for query in {one.query for one in chain if one.query}:
        assert max(one.id for one in chain if one.query == query) not in gone
    for one, successor in pairwise(chain):
        assert one.id not in gone or successor.at_ms <= now - KEEP_MS, "a reader may be at it"


def test_of_very_many_snapshots_that_notifications_named_the_newest_are_kept() -> None:
    chain = [Snap(n, n - 1, NOON + n, n, "append", "store") for n in range(ANNOUNCED_MAX + 100)]
    gone = expired(chain, chain[-1].id, Keep(announced={one.id for one in chain}), NOON + DAY_MS)
    assert gone == list(range(100))


def test_what_a_reader_has_pinned_stays_however_much_is_pinned_or_named() -> None:
    chain = [Snap(n, n - 1, NOON + n, n, "append", "store") for n in range(2 * ANNOUNCED_MAX)]
    oldest, ids = {0, 1, 2}, {one.id for one in chain}
    assert not expired(chain, chain[-1].id, Keep(ids), NOON + DAY_MS)
    assert not oldest & set(expired(chain, chain[-1].id, Keep(oldest, announced=ids), NOON + DAY_MS))
