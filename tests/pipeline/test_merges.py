"""Commits of a driver that slept while another took its place: refused, whichever way the rows go into the lake."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from artery.lake.tables import OHLC, REQUESTS, TRADES
from artery.pipeline import merges, upkeep
from artery.pipeline.compaction import Job
from artery.pipeline.merges import Slice
from artery.pipeline.outcomes import Ready, table_of
from artery.pipeline.pages import row_of
from tests.pipeline.conftest import House
from tests.pipeline.test_bars import BASE
from tests.pipeline.test_data_files import DAY, table
from tests.pipeline.test_storage import own, rows_of

Write = Callable[[DataFrame], None]
LONG_S = 60.0


def asleep(rows: DataFrame, bed: Path, naps: int) -> DataFrame:
    """The same rows; the task that reads them for the `naps`th time does not go on before it is woken."""
    where = str(bed)

    def nap(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count = len(list(Path(where).glob("read-*"))) + 1
            (Path(where) / f"read-{count}").touch()
            while count == naps and not (Path(where) / "woken").exists():
                time.sleep(0.02)
            yield batch

    return rows.coalesce(1).mapInArrow(nap, rows.schema)


def slept(spark: House, rows: pa.Table, write: Write, bed: Path, between: Callable[[], None], naps: int = 1) -> None:
    """Write rows with a driver that falls asleep when it has looked; `between` is what happens until it wakes."""
    bed.mkdir()
    raised: list[BaseException] = []

    def driver() -> None:
        try:
            write(asleep(spark.session.newSession().createDataFrame(rows), bed, naps))
        except (Py4JError, PySparkException) as error:
            raised.append(error)

    thread = threading.Thread(target=driver)
    thread.start()
    try:
        began = time.monotonic()
        while thread.is_alive() and not (bed / f"read-{naps}").exists():
            assert time.monotonic() - began < LONG_S
            time.sleep(0.02)
        assert thread.is_alive(), f"its rows were not read {naps} times"
        between()
    finally:
        (bed / "woken").touch()
        thread.join(LONG_S)
    if raised:
        raise raised[0]


def trades(days: int, coin: str) -> tuple[pa.Table, Write]:
    at = BASE + days * DAY
    rows = table(at, at + 1)
    named = rows.set_column(0, rows.schema.field(0), pa.array([f"SIM:{coin}"] * 2))
    return named, lambda found: merges.insert_new(found, TRADES, "ts", Slice(at * 1_000, (at + 1) * 1_000))


def candles(coin: str, merge: Callable[[DataFrame, Slice], None], close: str = "11") -> tuple[pa.Table, Write]:
    rows = pa.Table.from_pylist([row_of(own(coin, close, closed=True), "live")], schema=OHLC.schema)
    return rows, lambda found: merge(found, Slice(BASE * 1_000, BASE * 1_000, (60,)))


def outcomes(coin: str) -> tuple[pa.Table, Write]:
    ready = Ready(request_id=f"r-{coin}", ticker=f"SIM:{coin}", period_s=60, status=Ready.READY)
    return table_of([ready], {ready.request_id: 1}), lambda found: merges.insert_outcomes(found, [ready.request_id])


@pytest.mark.parametrize(
    ("coin", "of", "made"),
    [
        ("SLEPTTRADE", TRADES, trades(20, "SLEPTTRADE")),
        ("SLEPTOUTCOME", REQUESTS, outcomes("SLEPTOUTCOME")),
        ("SLEPTCANDLE", OHLC, candles("SLEPTCANDLE", merges.merge_candles)),
        ("SLEPTPAGE", OHLC, candles("SLEPTPAGE", merges.merge_history)),
        ("SLEPTAGAIN", OHLC, candles("SLEPTAGAIN", merges.merge_recomputed)),
    ],
    ids=["insert_new", "insert_outcomes", "merge_candles", "merge_history", "merge_recomputed"],
)
def test_a_driver_that_slept_while_another_took_its_place_commits_no_row_twice(
    spark: House, tmp_path: Path, coin: str, of: Any, made: tuple[pa.Table, Write]
) -> None:
    rows, write = made

    def another_driver() -> None:
        write(spark.session.newSession().createDataFrame(rows))

    with pytest.raises((Py4JError, PySparkException), match=r"conflicting files|concurrently modified"):
        slept(spark, rows, write, tmp_path / "bed", another_driver)
    assert len(rows_of(spark, of.name, f"SIM:{coin}")) == rows.num_rows
    another_driver()  # what a driver does whose commit was refused: all of it again
    assert len(rows_of(spark, of.name, f"SIM:{coin}")) == rows.num_rows


def test_a_merge_that_slept_at_its_last_look_is_refused_too(spark: House, tmp_path: Path) -> None:
    rows, write = candles("SLEPTLATE", merges.merge_candles)

    def another_driver() -> None:
        write(spark.session.newSession().createDataFrame(rows))

    with pytest.raises((Py4JError, PySparkException), match="conflicting files"):
        slept(spark, rows, write, tmp_path / "bed", another_driver, naps=2)
    assert len(rows_of(spark, "ohlc", "SIM:SLEPTLATE")) == 1


def test_files_that_are_joined_and_rows_of_other_tables_hold_no_commit_up(spark: House, tmp_path: Path) -> None:
    for number in range(2):
        rows, write = trades(30 + number, "JOINED")
        write(spark.session.createDataFrame(rows))
    more, write = trades(32, "JOINED")
    other, write_other = outcomes("JOINED")

    def upkeep_and_others() -> None:
        with_others = spark.session.newSession()
        write_other(with_others.createDataFrame(other))
        upkeep.compact(with_others, Job("trades", BASE, BASE + 40 * DAY, 0, 2, 1_000))

    slept(spark, more, write, tmp_path / "bed", upkeep_and_others)
    assert [one.operation for one in upkeep.look(spark.session, TRADES).snapshots][-2:] == ["replace", "append"]
    assert len(rows_of(spark, "trades", "SIM:JOINED")) == 6
