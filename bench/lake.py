"""The lake after a thousand commits of twenty markets: how fast it is read, beside the same data freshly written."""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from artery.errors import ArteryError
from artery.lake.catalog import open_catalog
from artery.lake.looking import looked_at
from artery.lake.places import QUERY
from artery.lake.prepare import prepare
from artery.lake.reads import Lake
from artery.lake.tables import OHLC
from artery.pipeline.compaction import Keep, jobs
from artery.pipeline.session import Spark
from artery.settings import Settings
from bench.rows import Row, row

MARKETS = 20
YEAR_DAYS = 365
COMMITS, LIVE_DAYS = 1_000, 10
"""The last days of a year come by commits, what was before them at once, as a venue's history does."""
KEEP_EVERY = 40
"""So many commits between two rounds of upkeep, as in the pipeline."""
KEEP_MS = 30_000
READS = 3
FILES_MAX = 30
DAY_MS, MINUTE_MS = 86_400_000, 60_000
BEGIN = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1_000)
END = BEGIN + YEAR_DAYS * DAY_MS
LIVE = END - LIVE_DAYS * DAY_MS


async def measure(commits: int = COMMITS) -> list[Row]:
    """Write, keep and read in a temporary folder; someone reads all along."""
    with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
        return await asyncio.to_thread(_measure, Path(name), commits)


def _measure(folder: Path, commits: int) -> list[Row]:
    settings = Settings().with_(data={"dir": str(folder)}, pipeline={"heap_mb": 640})
    settings.folder.mkdir(parents=True)
    _write_at_once(settings.folder, BEGIN, LIVE)
    spark = Spark(settings)
    try:
        with reading(settings.folder) as seen:
            _commit(spark.session(), commits)
    finally:
        spark.stop()
    _write_at_once(folder / "fresh", BEGIN, END)
    lake, fresh = Lake(settings.folder), Lake(folder / "fresh")
    day, year = (_times(lake, fresh, begin, end) for begin, end in ((LIVE, LIVE + DAY_MS), (BEGIN, END)))
    files = len(looked_at(lake, OHLC.name).files)
    versions = len(list((settings.folder / "lake").rglob("*.metadata.json")))
    peer = "fresh"
    return [
        row("lake.commits", commits, "commits"),
        row("lake.day_read", day[0] * 1_000, "ms", "<= 1.5", peer, day[1] * 1_000),
        row("lake.year_read", year[0] * 1_000, "ms", "<= 1.5", peer, year[1] * 1_000),
        row("lake.files", files, "files", f"<= {FILES_MAX}"),
        row("lake.metadata_files", versions, "files", "<= 60"),
        row("lake.reads_beside", seen[0], "reads"),
        row("lake.reads_failed", seen[1], "reads", "<= 0"),
    ]


def _commit(session: Any, commits: int) -> None:
    """The commits, by the pipeline's own merges, and upkeep between them as the pipeline does it."""
    from artery.pipeline import merges, upkeep

    merges.sign(session, {QUERY: "store"})
    each = commits // LIVE_DAYS
    for number in range(commits):
        day = LIVE + number // each * DAY_MS
        first, last = (1_440 * (number % each + more) // each for more in (0, 1))
        last = min(last, 1_439)  # the candle that is open is written too, and again by the next commit
        rows = candles(day + first * MINUTE_MS, day + (last + 1) * MINUTE_MS, open_from=day + last * MINUTE_MS)
        part = merges.Slice((day + first * MINUTE_MS) * 1_000, (day + last * MINUTE_MS) * 1_000, (60,))
        merges.merge_candles(session.createDataFrame(rows), part)
        if (number + 1) % KEEP_EVERY == 0:
            for job in jobs(OHLC, upkeep.look(session, OHLC).files, day + last * MINUTE_MS):
                upkeep.compact(session, job)
            upkeep.expire(session, OHLC, Keep(ms=KEEP_MS), int(time.time() * 1_000))


def candles(start_ms: int, end_ms: int, open_from: int = END) -> pa.Table:
    """A candle a minute and market; those from `open_from` on are still open."""
    minutes = np.arange(start_ms, end_ms, MINUTE_MS).repeat(MARKETS)
    count = len(minutes)
    numbers = np.arange(count)
    prices = pa.array(64_000 + numbers % 977).cast(OHLC.schema.field("open").type)
    times = pa.array(minutes * 1_000).cast(OHLC.schema.field("start").type)
    names = pa.array([f"SIM:M{number}" for number in range(MARKETS)])
    columns: dict[str, Any] = dict.fromkeys(("open", "high", "low", "close", "volume"), prices)
    columns |= {"ticker": names.take(pa.array(numbers % MARKETS)), "period_s": np.full(count, 60, np.int32)}
    columns |= {"start": times, "trades": numbers, "rev": np.zeros(count, np.int32), "updated": times}
    columns |= {"closed": minutes < open_from, "source": pa.array(["live"]).take(pa.array(numbers * 0))}
    return pa.table({field.name: columns[field.name] for field in OHLC.schema}, schema=OHLC.schema)


def _write_at_once(folder: Path, begin: int, end: int) -> None:
    """A lake that was written in one go: a file a month."""
    prepare(folder)
    catalog = open_catalog(folder)
    table = catalog.load_table(OHLC.full_name)
    months = [*(int(datetime(2025, month, 1, tzinfo=UTC).timestamp() * 1_000) for month in range(1, 13)), END]
    for low, high in pairwise(months):
        if low < end:
            table.append(candles(max(low, begin), min(high, end)))
    catalog.engine.dispose()


def _times(ours: Lake, fresh: Lake, begin: int, end: int) -> tuple[float, float]:
    """The best time of each, in turns, to read one market's minutes of this time."""
    best = [float("inf"), float("inf")]
    for _ in range(READS):
        for at, lake in enumerate((ours, fresh)):
            before = time.perf_counter()
            found = lake.revisions("SIM:M7", 60, 0, begin, end)
            best[at] = min(best[at], time.perf_counter() - before)
            assert found.num_rows == (end - begin) // MINUTE_MS, found.num_rows
    return best[0], best[1]


@contextmanager
def reading(folder: Path, pause_s: float = 1.0) -> Iterator[list[int]]:
    """Someone who reads the newest day over and over; yields how often, and how often it failed."""
    seen, stopped = [0, 0], threading.Event()
    thread = threading.Thread(target=_read, args=(Lake(folder), seen, stopped.is_set, pause_s))
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


def _read(lake: Lake, seen: list[int], is_over: Callable[[], bool], pause_s: float) -> None:
    while not is_over():
        seen[0] += 1
        try:
            lake.candles("SIM:M3", 60, BEGIN, END, 1_440)
        except ArteryError:
            seen[1] += 1
        time.sleep(pause_s)
    lake.close()
