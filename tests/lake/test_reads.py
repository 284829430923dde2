"""The lake as everyone reads it: by PyIceberg, from tables that any Iceberg writer may have filled."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from artery.errors import BadSetting, CannotStart, NotFound, Unavailable
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.places import BATCH, POSITIONS, QUERY, catalog_file, jdbc_of, sql_of
from artery.lake.prepare import prepare
from artery.lake.reads import Lake
from artery.lake.tables import GUARDS, OHLC, TABLES, TRADES, Table

MINUTE = 60_000
NOON = 1_730_000_040_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ensure_tables(open_catalog(tmp_path))
    return tmp_path


def when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def candle(ticker: str, start_ms: int, close: str = "1.5", period_s: int = 60) -> dict[str, object]:
    prices = dict.fromkeys(("open", "high", "low", "close", "volume"), Decimal(close))
    return {
        "ticker": ticker,
        "period_s": period_s,
        "start": when(start_ms),
        **prices,
        "trades": 3,
        "closed": True,
        "rev": 0,
        "source": "live",
        "updated": when(start_ms + MINUTE),
    }


def trade(tid: int, ts: int, ticker: str = "SIM:BTC") -> dict[str, object]:
    return {
        "ticker": ticker,
        "ts": when(ts),
        "tid": str(tid),
        "price": Decimal("64000.000000000000000001"),
        "size": Decimal("0.1"),
        "side": "B",
        "provider": "sim",
        "epoch": 1,
        "seq": tid,
        "received": when(ts + 5),
    }


def append(folder: Path, table: Table, rows: list[dict[str, object]], **positions: str) -> None:
    summary = {QUERY: "store", BATCH: "1", POSITIONS: msgspec.json.encode(positions).decode()}
    catalog = open_catalog(folder)
    handle = catalog.load_table(table.full_name)
    handle.append(pa.Table.from_pylist(rows, schema=table.schema), snapshot_properties=summary)
    catalog.engine.dispose()


def test_a_lake_that_is_not_there_reads_as_empty_and_is_not_made(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.candles("SIM:BTC", 60, 0, NOON, 10).schema == OHLC.schema
    assert lake.trades("SIM:BTC", 0, NOON, 10).num_rows == 0
    assert lake.positions() == dict.fromkeys(("trade", "book", "candle", "feed", "history", "symbol"), "0")
    assert lake.snapshot("ohlc") == 0
    assert not catalog_file(tmp_path).exists()


def test_every_table_is_made_with_the_columns_defined(folder: Path) -> None:
    lake = Lake(folder)
    for name, table in TABLES.items():
        assert lake.scan(name).schema == table.schema


def test_making_the_tables_twice_changes_nothing(folder: Path) -> None:
    append(folder, OHLC, [candle("SIM:BTC", NOON)])
    before = Lake(folder).snapshot("ohlc")
    ensure_tables(open_catalog(folder))
    assert Lake(folder).snapshot("ohlc") == before != 0


def test_a_table_of_an_older_version_gets_what_commits_rely_on_and_keeps_the_rest(folder: Path) -> None:
    catalog, mine = (
        open_catalog(folder),
        {"write.merge.isolation-level": "snapshot", "write.parquet.page-row-limit": "9"},
    )
    with catalog.load_table(OHLC.full_name).transaction() as transaction:
        transaction.set_properties(mine)
    ensure_tables(catalog)
    assert catalog.load_table(OHLC.full_name).properties.items() >= (mine | {GUARDS[0]: "serializable"}).items()


def test_a_table_with_other_columns_is_refused_in_one_sentence(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path)
    catalog.create_namespace("market")
    catalog.create_table("market.ohlc", schema=pa.schema([("ticker", pa.string())]))
    with pytest.raises(CannotStart, match="close, closed"):
        ensure_tables(catalog)


def test_candles_are_of_one_ticker_period_and_range_oldest_first(folder: Path) -> None:
    rows = [candle("SIM:BTC", NOON + i * MINUTE) for i in (3, 1, 2, 0, 4)]
    append(folder, OHLC, [*rows, candle("SIM:ETH", NOON), candle("SIM:BTC", NOON - NOON % 300_000, period_s=300)])
    found = Lake(folder).candles("SIM:BTC", 60, NOON + MINUTE, NOON + 4 * MINUTE, 100)
    assert found["start"].to_pylist() == [when(NOON + i * MINUTE) for i in (1, 2, 3)]
    assert found.schema == OHLC.schema


def test_a_limit_keeps_the_newest(folder: Path) -> None:
    append(folder, OHLC, [candle("SIM:BTC", NOON + i * MINUTE) for i in range(10)])
    found = Lake(folder).candles("SIM:BTC", 60, 0, NOON * 2, 2)
    assert found["start"].to_pylist() == [when(NOON + i * MINUTE) for i in (8, 9)]


def test_the_newest_trades_are_found_over_many_files(folder: Path) -> None:
    for commit in range(12):
        append(folder, TRADES, [trade(commit * 3 + i, NOON + commit * 30 + i * 10) for i in range(3)])
    found = Lake(folder).trades("SIM:BTC", 0, NOON * 2, 4)
    assert found["tid"].to_pylist() == ["32", "33", "34", "35"]
    assert found["price"].to_pylist() == [Decimal("64000.000000000000000001")] * 4


def test_trades_of_one_moment_keep_their_sequence(folder: Path) -> None:
    append(folder, TRADES, [trade(tid, NOON) for tid in (3, 1, 2)])
    assert Lake(folder).trades("SIM:BTC", 0, NOON * 2, 9)["tid"].to_pylist() == ["1", "2", "3"]


def test_a_reader_sees_a_newer_commit_at_once(folder: Path) -> None:
    lake = Lake(folder)
    assert lake.trades("SIM:BTC", 0, NOON * 2, 10).num_rows == 0
    append(folder, TRADES, [trade(1, NOON)])
    assert lake.trades("SIM:BTC", 0, NOON * 2, 10).num_rows == 1
    append(folder, TRADES, [trade(2, NOON + 1)])
    assert lake.trades("SIM:BTC", 0, NOON * 2, 10).num_rows == 2


def test_positions_are_those_that_the_newest_commits_name(folder: Path) -> None:
    append(folder, TRADES, [trade(1, NOON)], trade="90", candle="9", history="2", feed="5")
    append(folder, OHLC, [candle("SIM:BTC", NOON)], trade="120", candle="30", history="2")
    positions = Lake(folder).positions()
    assert positions == {"trade": "90", "candle": "30", "history": "2", "feed": "5", "book": "0", "symbol": "0"}


def test_a_commit_of_another_writer_does_not_hide_the_positions(folder: Path) -> None:
    append(folder, TRADES, [trade(1, NOON)], trade="90")
    table = open_catalog(folder).load_table("market.trades")
    table.append(pa.Table.from_pylist([trade(2, NOON)], schema=TRADES.schema))
    assert Lake(folder).positions()["trade"] == "90"


def test_a_broken_catalog_is_unavailable_not_a_traceback(folder: Path) -> None:
    catalog_file(folder).write_bytes(b"not a database" * 100)
    with pytest.raises(Unavailable, match="the lake could not be read"):
        Lake(folder).candles("SIM:BTC", 60, 0, NOON, 10)


def test_a_ticker_is_data_not_text_of_a_filter(folder: Path) -> None:
    append(folder, OHLC, [candle("SIM:BTC", NOON)])
    assert Lake(folder).candles("SIM:BTC' OR '1'='1", 60, 0, NOON * 2, 10).num_rows == 0


def test_preparing_tells_how_far_the_lake_has_come(tmp_path: Path) -> None:
    assert set(prepare(tmp_path).values()) == {"0"}
    append(tmp_path, TRADES, [trade(1, NOON)], trade="90")
    assert prepare(tmp_path)["trade"] == "90"


def test_a_catalog_on_a_server_is_told_to_spark_with_its_password_apart_from_its_address() -> None:
    url = "postgresql://art:p%40ss@db.example:5433/lake?sslmode=require"
    told = jdbc_of(Path("/data"), url)
    assert told == {
        "uri": "jdbc:postgresql://db.example:5433/lake?connectTimeout=5&sslmode=require",
        "jdbc.user": "art",
        "jdbc.password": "p@ss",
    }
    assert sql_of(Path("/data"), url) == (
        "postgresql+psycopg2://art:p%40ss@db.example:5433/lake?sslmode=require&connect_timeout=5"
    )
    assert jdbc_of(Path("/data"))["uri"].startswith("jdbc:sqlite:/data/lake/catalog.db")


@pytest.mark.parametrize("url", ["mysql://host/db", "postgresql://host", "postgresql:///db", "catalog.db"])
def test_a_catalog_that_cannot_be_is_refused_with_what_can_be(url: str) -> None:
    with pytest.raises(BadSetting, match="ART_LAKE_CATALOG_URL takes postgresql://user:password@host:5432/database"):
        Lake(Path("/data"), None, url).snapshot("ohlc")


def test_a_position_is_still_named_when_all_between_it_and_the_newest_commit_has_expired(folder: Path) -> None:
    append(folder, TRADES, [trade(1, NOON)], trade="90")
    catalog = open_catalog(folder)
    table = catalog.load_table(TRADES.full_name)
    for number in (2, 3):  # not by the store query
        table.append(pa.Table.from_pylist([trade(number, NOON)], schema=TRADES.schema))
    between = table.metadata.snapshots[1].snapshot_id
    table.maintenance.expire_snapshots().by_id(between).commit()
    catalog.engine.dispose()
    assert Lake(folder).positions()["trade"] == "90"


def test_candles_are_read_as_they_were_at_a_snapshot(folder: Path) -> None:
    append(folder, OHLC, [candle("SIM:BTC", NOON + 2 * MINUTE), candle("SIM:ETH", NOON)])
    append(folder, OHLC, [candle("SIM:BTC", NOON + 3 * MINUTE), candle("SIM:BTC", NOON + MINUTE)])
    lake = Lake(folder)
    then = lake.snapshot("ohlc")
    append(folder, OHLC, [candle("SIM:BTC", NOON)])

    def starts(snapshot_id: int) -> list[object]:
        found = lake.candles_at(snapshot_id, "SIM:BTC", 60, NOON, NOON + 4 * MINUTE, ("start", "close"))
        assert found.schema.names == ["start", "close"]
        return found.column("start").to_pylist()

    assert starts(then) == [when(NOON + number * MINUTE) for number in (1, 2, 3)]
    assert starts(lake.snapshot("ohlc")) == [when(NOON + number * MINUTE) for number in (0, 1, 2, 3)]
    assert len(lake.candle_files(then, "SIM:BTC", 60, NOON, NOON + 4 * MINUTE)) == 2
    with pytest.raises(NotFound, match="no snapshot 7 of its candles"):
        starts(7)
    lake.close()


@pytest.mark.parametrize("ticker", ["SIM:BTC", "POLYMARKET:A-LONG-QUESTION-1"])
def test_candles_at_a_snapshot_are_those_asked_for_whatever_else_their_files_hold(folder: Path, ticker: str) -> None:
    other = ticker[:-1] + "2"  # a long one has the same bounds in Iceberg's eyes
    append(folder, OHLC, [candle(ticker, NOON + number * MINUTE) for number in range(4)])  # cut at its begin
    append(folder, OHLC, [candle(ticker, NOON + 4 * MINUTE), candle(other, NOON + 4 * MINUTE)])
    append(folder, OHLC, [candle(ticker, NOON + number * MINUTE) for number in (5, 6)])  # of which all is wanted
    append(folder, OHLC, [candle(other, NOON + 6 * MINUTE)])
    append(folder, OHLC, [candle(ticker, NOON + number * MINUTE) for number in (7, 8)])  # cut at its end
    lake = Lake(folder)
    found = lake.candles_at(lake.snapshot("ohlc"), ticker, 60, NOON + 2 * MINUTE, NOON + 8 * MINUTE, ("start",))
    lake.close()
    assert found.column("start").to_pylist() == [when(NOON + number * MINUTE) for number in range(2, 8)]
