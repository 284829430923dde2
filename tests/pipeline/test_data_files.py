"""Large batches of trades: files that the task writes that reads them, committed as they are if all trades are new."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet

from artery.lake.tables import OHLC, TRADES, Table
from artery.model.periods import Period
from artery.pipeline import appends
from artery.pipeline.data_files import PART_LEAST, PARTS_MAX, Home, write
from artery.pipeline.upkeep import load
from artery.wire import history
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE, trade
from tests.pipeline.test_full_lake import full
from tests.pipeline.test_storage import MINUTE, Stored, encoded, homes_of, own, rows_of

DAY = 86_400_000


def table(*times_ms: int, received_ms: int = 0) -> pa.Table:
    """Rows of `trades` at these times."""
    rows = [
        {
            "ticker": "SIM:FILES",
            "ts": datetime.fromtimestamp(ms / 1_000, UTC),
            "tid": str(number),
            "price": Decimal("10.5"),
            "size": Decimal(1),
            "side": "B",
            "provider": "sim",
            "epoch": 1,
            "seq": number,
            "received": datetime.fromtimestamp((received_ms or ms) / 1_000, UTC),
        }
        for number, ms in enumerate(times_ms)
    ]
    return pa.Table.from_pylist(rows, schema=TRADES.schema)


def home(folder: Path, least: int = 1) -> Home:
    return Home(str(folder), tuple(range(1, len(TRADES.schema) + 1)), least)


def newest(spark: House, of: Table = TRADES) -> dict[str, str]:
    """The summary of the newest commit to a table."""
    return dict(load(spark.session, of).currentSnapshot().summary())


def fetched(log: Log, coin: str, *closes: str, start: int = BASE) -> None:
    """A page of the venue's candles, minute by minute."""
    made = [own(coin, close, closed=True, start=start + at * MINUTE) for at, close in enumerate(closes)]
    page = history.page("r", "sim", coin, Period(60), made, number=0, last=False)
    log.append("history", history.encode(page, event_ts=BASE))


def test_each_day_has_a_file_of_its_own_that_says_what_it_holds(tmp_path: Path) -> None:
    files, rest = write(table(BASE, BASE + 5, BASE + DAY, received_ms=BASE + DAY + 9), TRADES, home(tmp_path))
    assert rest.num_rows == 0
    assert [(file.rows, file.low, file.high, file.late_ms) for file in files] == [
        (2, BASE * 1_000, (BASE + 5) * 1_000, DAY + 9),
        (1, (BASE + DAY) * 1_000, (BASE + DAY) * 1_000, 9),
    ]
    found = [parquet.read_table(file.path) for file in files]
    assert pa.concat_tables(found).column("tid").to_pylist() == ["0", "1", "2"]
    assert [field.metadata[b"PARQUET:field_id"] for field in found[0].schema][:2] == [b"1", b"2"]


def test_few_trades_and_those_of_many_days_stay_rows(tmp_path: Path) -> None:
    few, many = table(BASE, BASE + 1), table(*[BASE + day * DAY for day in range(PARTS_MAX + 1)])
    assert write(few, TRADES, home(tmp_path, least=3)) == ([], few)
    assert write(many, TRADES, home(tmp_path)) == ([], many)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_file_that_finds_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    with full(tmp_path / "data", tmp_path / "aside"):
        with pytest.raises(OSError, match=r"No space left|Not a directory"):
            write(table(BASE), TRADES, home(tmp_path))
        assert list(tmp_path.rglob("*.parquet")) == []


def test_rows_stored_as_files_are_those_that_are_merged(spark: House, log: Log) -> None:
    for coin, files in (("ASFILE", True), ("ASROWS", False)):
        day = BASE - BASE % DAY
        times = (day - 2, day - 1, day, day + 5)
        made = [trade(seq, ts, px=f"{seq}.25", coin=coin) for seq, ts in enumerate(times, 1)]
        log.append("trade", *encoded(*made, made[1]))
        store = Stored(spark, log, files=files)
        store.at["trade"] = "0" if files else "5"
        store.run()
    as_file, as_rows = (
        sorted(rows_of(spark, "trades", f"SIM:{coin}"), key=lambda row: row["tid"]) for coin in ("ASFILE", "ASROWS")
    )
    assert len(as_file) == 4
    assert as_file == [row | {"ticker": "SIM:ASFILE"} for row in as_rows]


def test_files_of_new_trades_are_appended_and_their_commit_names_the_positions(spark: House, log: Log) -> None:
    store = Stored(spark, log, files=True)
    log.append("trade", *encoded(*[trade(seq, BASE + 3 * DAY + seq, coin="APPENDED") for seq in range(1, 4)]))
    store.run()
    said = newest(spark)
    assert (said["added-records"], said["added-data-files"], said["artery.query"]) == ("3", "1", "store")
    assert msgspec.json.decode(said["artery.positions"])["trade"] == "3"
    assert spark.lake.positions()["trade"] == "3"
    assert store.query.progress.rows == 3
    within = spark.session.table("artery.market.trades.files").where("readable_metrics.ts.lower_bound IS NULL")
    assert within.count() == 0, "a file without bounds is opened by every reader"


def test_files_with_trades_that_the_lake_has_are_merged(spark: House, log: Log) -> None:
    store = Stored(spark, log, files=True)
    first = [trade(seq, BASE + 5 * DAY + seq, coin="MERGED") for seq in range(1, 6)]
    log.append("trade", *encoded(*first, first[2]))
    store.run()
    log.append("trade", *encoded(first[4], trade(6, BASE + 5 * DAY + 1, coin="MERGED")))
    store.run()
    assert sorted(row["tid"] for row in rows_of(spark, "trades", "SIM:MERGED")) == ["1", "2", "3", "4", "5", "6"]
    assert newest(spark)["added-records"] == "1"


def test_trades_of_the_same_time_as_others_are_new_all_the_same(spark: House, log: Log) -> None:
    store = Stored(spark, log, files=True)
    for seq in (1, 2):
        log.append("trade", *encoded(trade(seq, BASE + 6 * DAY, coin="NEIGHBOUR")))
        store.run()
    assert "spark.app.id" not in newest(spark), "Spark has merged them"
    assert len(rows_of(spark, "trades", "SIM:NEIGHBOUR")) == 2


def test_what_is_much_to_look_through_counts_as_there(spark: House, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Stored(spark, log, files=True)
    log.append("trade", *encoded(trade(1, BASE + 7 * DAY, coin="MUCH")))
    store.run()
    files, _ = write(table(BASE + 7 * DAY), TRADES, homes_of(spark)[TRADES.name])
    monkeypatch.setattr(appends, "LOOK_FILES", 0)
    assert not appends.append_new(spark.session, files, {})
    monkeypatch.undo()
    assert appends.append_new(spark.session, files, {"by": "hand"})
    assert newest(spark)["by"] == "hand"


def test_a_driver_that_slept_while_another_took_its_place_commits_nothing(
    spark: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept, other = (write(table(BASE + 8 * DAY), TRADES, homes_of(spark)[TRADES.name])[0] for _ in range(2))
    looked = appends._near

    def then_another_commits(*words: Any) -> list[str] | None:
        found = looked(*words)
        monkeypatch.setattr(appends, "_near", looked)
        assert appends.append_new(spark.session, other, {"by": "another"})
        return found

    monkeypatch.setattr(appends, "_near", then_another_commits)
    with pytest.raises(Py4JJavaError, match="conflicting files"):
        appends.append_new(spark.session, slept, {"by": "slept"})
    assert newest(spark)["by"] == "another"


def test_history_stored_as_files_is_that_which_is_merged(spark: House, log: Log) -> None:
    month_end = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp()) * 1_000
    for number, (coin, files) in enumerate((("HISTFILE", True), ("HISTROWS", False))):
        fetched(log, coin, "11", "12", "13", "14", start=month_end - 2 * MINUTE)
        store = Stored(spark, log, files=files)
        store.at["history"] = str(number)
        store.run()
        assert ("spark.app.id" in newest(spark, OHLC)) is not files
    as_file, as_rows = (
        sorted(rows_of(spark, "ohlc", f"SIM:{coin}"), key=lambda row: row["start"]) for coin in ("HISTFILE", "HISTROWS")
    )
    assert [row["close"] for row in as_file] == [11, 12, 13, 14]
    assert as_file == [row | {"ticker": "SIM:HISTFILE"} for row in as_rows]
    parts = spark.session.table("artery.market.ohlc.files").where("partition.start_month IN (672, 673)")
    assert parts.where("partition.period_s_identity = 60").count() >= 4


def test_history_of_which_the_lake_has_a_part_is_merged_and_corrects_it(spark: House, log: Log) -> None:
    store = Stored(spark, log, files=True)
    fetched(log, "HISTAGAIN", "11", "12")
    store.run()
    fetched(log, "HISTAGAIN", "11", "99", "13")
    store.run()
    found = sorted(rows_of(spark, "ohlc", "SIM:HISTAGAIN"), key=lambda row: row["start"])
    assert [(row["close"], row["rev"]) for row in found] == [(11, 0), (99, 1), (13, 0)]
    assert msgspec.json.decode(newest(spark, OHLC)["artery.positions"])["history"] == "2"


def test_a_month_of_few_candles_stays_rows_beside_the_files_of_others(
    spark: House, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    month = int(datetime(2026, 4, 1, tzinfo=UTC).timestamp()) * 1_000
    monkeypatch.setitem(PART_LEAST, OHLC.name, 3)
    store = Stored(spark, log, files=True, least=3)
    fetched(log, "HISTBESIDE", "11", "12", "13", "14", start=month - MINUTE)
    store.run()
    found = sorted(rows_of(spark, "ohlc", "SIM:HISTBESIDE"), key=lambda row: row["start"])
    assert [row["close"] for row in found] == [11, 12, 13, 14]
    said = newest(spark, OHLC)
    assert (said["added-records"], "spark.app.id" in said) == ("3", False)
    assert msgspec.json.decode(said["artery.positions"])["history"] == "1"
