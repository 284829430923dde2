"""From the bus to the lake: exactly once by key, whatever is replayed, repeated or broken."""

from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from artery.bus.base import START
from artery.lake.reads import Lake
from artery.model import codec
from artery.model.events import Book, Candle, Mark, Trade
from artery.model.periods import Period
from artery.pipeline import appends
from artery.pipeline.data_files import Home
from artery.pipeline.offsets import STORE, Offsets, span
from artery.pipeline.rows import Rows
from artery.pipeline.source import READER
from artery.pipeline.storage import GROUPS, StoreQuery, reason
from artery.wire import history
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE, trade

MINUTE = 60_000
ZERO: Offsets = dict.fromkeys(STORE, START)


class Stored:
    """The store query without its trigger: every call is a micro-batch up to the heads. `files` has trades and
    history written as files, however few they are."""

    def __init__(self, spark: House, log: Log, start: Offsets = ZERO, *, files: bool = False, least: int = 1) -> None:
        self.spark, self.log, self.at, self.batch = spark, log, dict(start), 0
        self.homes = homes_of(spark, least) if files else {}
        for stream in STORE:
            log.do(lambda s=stream: log.bus.ensure_group(s, GROUPS[s]))
        self.query = StoreQuery(start, log.bus, log.calls)

    def run(self, *, but: str = "") -> None:
        """`but` is a stream that is not due."""
        reader = READER(self.log.url, "md_stream")
        end = {stream: self.at[stream] if stream == but else reader.head(stream) for stream in STORE}
        found = Rows(1_000, self.homes)
        for stream in STORE:
            found.take(stream, span(reader, stream, self.at[stream], end[stream]))
        frame = self.spark.session.createDataFrame(pa.Table.from_batches([found.record_batch(end)]))
        self.query.on_batch(frame, self.batch)
        self.at, self.batch = end, self.batch + 1


def homes_of(spark: House, least: int = 1) -> dict[str, Home]:
    """Where the tables of trades and candles have their files."""
    found = appends.homes(spark.session)
    return {name: msgspec.structs.replace(home, least=least) for name, home in found.items()}


def rows_of(spark: House, table: str, ticker: str) -> list[dict[str, Any]]:
    found = spark.lake.scan(table)
    return found.filter(pc.equal(found["ticker"], ticker)).to_pylist()


def own(coin: str, close: str, *, closed: bool = False, rev: int = 0, at: int = 0, start: int = BASE) -> Candle:
    low, high = sorted((Decimal(10), Decimal(close)))
    return Candle(
        provider="sim",
        coin=coin,
        period=Period(60),
        start_ts=start,
        o=Decimal(10),
        h=high,
        l=low,
        c=Decimal(close),
        v=Decimal(1),
        n=1,
        closed=closed,
        rev=rev,
        event_ts=BASE + at,
        epoch=1,
        seq=1,
    )


def page(*candles: Candle) -> dict[str, str]:
    batch = history.page("own:repair", "sim", candles[0].coin, candles[0].period, candles, number=1, last=True)
    return history.encode(batch, event_ts=BASE + 9 * MINUTE)


def encoded(*events: Trade | Candle | Book | Mark) -> list[dict[str, str]]:
    return [codec.encode(event) for event in events]


def test_trades_are_kept_once_though_the_bus_has_them_twice(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    first = [trade(seq, BASE + seq, coin="TWICE") for seq in range(1, 6)]
    log.append("trade", *encoded(*first, first[2]))
    store.run()
    log.append("trade", *encoded(first[4], trade(6, BASE + 1, coin="TWICE")))
    store.run()
    found = rows_of(spark, "trades", "SIM:TWICE")
    assert sorted(row["tid"] for row in found) == ["1", "2", "3", "4", "5", "6"]
    assert found[0]["price"] == Decimal(10)


def test_a_crash_after_a_commit_repeats_nothing(spark: House, log: Log) -> None:
    log.append("trade", *encoded(*[trade(seq, BASE + seq, coin="CRASH") for seq in range(1, 4)]))
    log.append("candle", *encoded(own("CRASH", "11", closed=True)))
    Stored(spark, log).run()
    log.append("trade", *encoded(trade(4, BASE + 4, coin="CRASH")))
    Stored(spark, log).run()  # a driver that begins again at the beginning
    again = Stored(spark, log, spark.lake.positions())  # one that begins where the commits say
    again.run()
    assert sorted(row["tid"] for row in rows_of(spark, "trades", "SIM:CRASH")) == ["1", "2", "3", "4"]
    assert len(rows_of(spark, "ohlc", "SIM:CRASH")) == 1


def test_commits_name_the_query_the_batch_and_the_positions(spark: House, log: Log) -> None:
    store, number = Stored(spark, log), 4_711  # of its own, as other tests write the same tables
    store.query = StoreQuery(ZERO, log.bus, log.calls, number)
    log.append("trade", *encoded(trade(1, BASE, coin="NAMED")))
    log.append("book", *encoded(book("NAMED", BASE)))
    log.append("candle", *encoded(own("NAMED", "11")))
    store.run()
    assert Lake(spark.settings.folder, number).positions() == {
        "trade": "1",
        "book": "1",
        "candle": "1",
        "feed": "0",
        "history": "0",
        "symbol": "0",
    }


def test_groups_are_advanced_once_the_rows_are_committed(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    log.append("trade", *encoded(trade(1, BASE, coin="ACKED"), trade(2, BASE, coin="ACKED")))
    store.run()
    state = log.do(lambda: log.bus.group("trade", GROUPS["trade"]))
    assert (state.last, state.lag, state.pending) == ("2", 0, 0)


def test_newer_versions_of_a_candle_win_and_a_closed_one_needs_a_higher_revision(spark: House, log: Log) -> None:
    cases = {
        "NEWER": (own("NEWER", "11", at=1), own("NEWER", "12", at=2), "12"),
        "OLDER": (own("OLDER", "11", at=2), own("OLDER", "12", at=1), "11"),
        "CLOSED": (own("CLOSED", "11", at=2), own("CLOSED", "12", closed=True, at=1), "12"),
        "AGAIN": (own("AGAIN", "11", closed=True, at=1), own("AGAIN", "12", closed=True, at=2), "11"),
        "OPEN": (own("OPEN", "11", closed=True, at=1), own("OPEN", "12", rev=5, at=2), "11"),
        "HIGHER": (own("HIGHER", "11", closed=True, at=2), own("HIGHER", "12", closed=True, rev=1, at=1), "12"),
    }
    store = Stored(spark, log)
    for turn in (0, 1):
        log.append("candle", *encoded(*[case[turn] for case in cases.values()]))  # type: ignore[arg-type]
        store.run()
    found = {coin: rows_of(spark, "ohlc", f"SIM:{coin}") for coin in cases}
    assert {coin: [row["close"] for row in rows] for coin, rows in found.items()} == {
        coin: [Decimal(close)] for coin, (_, _, close) in cases.items()
    }
    assert [(row["closed"], row["rev"], row["source"]) for row in found["HIGHER"]] == [(True, 1, "live")]


def test_of_one_batch_only_the_newest_version_is_written(spark: House, log: Log) -> None:
    log.append("candle", *encoded(*[own("BATCH", str(11 + at), at=at) for at in range(5)]))
    Stored(spark, log).run()
    assert [row["close"] for row in rows_of(spark, "ohlc", "SIM:BATCH")] == [Decimal(15)]


def test_a_venues_candle_corrects_ours_fills_what_is_missing_and_leaves_what_is_equal(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    equal, other = own("VENUE", "11", closed=True), own("VENUE", "12", closed=True, start=BASE + MINUTE)
    missing = own("VENUE", "13", closed=True, start=BASE + 2 * MINUTE)
    log.append("candle", *encoded(equal, other))
    store.run()
    corrected = msgspec.structs.replace(other, c=Decimal("11.5"), v=Decimal(7))
    log.append("history", page(equal, corrected, missing))
    store.run()
    log.append("history", page(equal, corrected, missing))  # the same again changes nothing
    store.run()
    found = sorted(rows_of(spark, "ohlc", "SIM:VENUE"), key=lambda row: row["start"])
    assert [(row["close"], row["rev"], row["source"]) for row in found] == [
        (Decimal(11), 0, "live"),
        (Decimal("11.5"), 1, "history"),
        (Decimal(13), 0, "history"),
    ]


def test_our_own_closed_candle_does_not_override_the_venues(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    log.append("history", page(own("FIRST", "20", closed=True)))
    store.run()
    log.append("candle", *encoded(own("FIRST", "11", closed=True, at=99)))
    store.run()
    assert [row["close"] for row in rows_of(spark, "ohlc", "SIM:FIRST")] == [Decimal(20)]


def test_a_batch_may_span_midnight(spark: House, log: Log) -> None:
    day = BASE - BASE % 86_400_000
    starts = [day - MINUTE, day, day + MINUTE]
    store = Stored(spark, log)
    for close in ("11", "12"):
        log.append("candle", *encoded(*[own("NIGHT", close, start=start, at=int(close)) for start in starts]))
        log.append("trade", *encoded(*[trade(seq, start, coin="NIGHT") for seq, start in enumerate(starts)]))
        store.run()
    assert [row["close"] for row in rows_of(spark, "ohlc", "SIM:NIGHT")] == [Decimal(12)] * 3
    assert len(rows_of(spark, "trades", "SIM:NIGHT")) == 3


def test_what_cannot_be_decoded_is_dead_lettered_once_and_the_rest_is_kept(spark: House, log: Log) -> None:
    good = codec.encode(trade(1, BASE, coin="GOOD"))
    log.append("trade", {"ver": "1", "t": "TRADE", "coin": "GOOD"}, good, good | {"ver": "9", "tid": "2"})
    log.append("candle", codec.encode(trade(3, BASE, coin="GOOD")))
    Stored(spark, log).run()
    dead = {(entry["stream"], entry["id"]) for entry in log.fields("dead")}
    assert dead == {("trade", "1"), ("trade", "3"), ("candle", "1")}
    Stored(spark, log).run()  # a replay
    assert len(log.fields("dead")) == 3
    assert [row["tid"] for row in rows_of(spark, "trades", "SIM:GOOD")] == ["1"]


def test_at_most_one_book_a_second_and_market_is_kept(spark: House, log: Log) -> None:
    log.append("book", *encoded(*[book("BOOKS", BASE + ms) for ms in (0, 300, 900, 1_000)]))
    Stored(spark, log).run()
    found = sorted(row["ts"].timestamp() for row in rows_of(spark, "books", "SIM:BOOKS"))
    assert found == [(BASE + 900) / 1_000, (BASE + 1_000) / 1_000]


def test_a_trade_too_late_for_the_candle_query_corrects_our_candle_but_not_the_venues(spark: House, log: Log) -> None:
    store = Stored(spark, log)
    log.append("trade", *encoded(trade(1, BASE + 10, coin="LATE")))
    log.append("candle", *encoded(own("LATE", "10", closed=True)))
    log.append("history", page(own("WORD", "20", closed=True)))
    store.run()
    for coin in ("LATE", "WORD"):
        late = trade(2, BASE + 20, px="15", sz="2", coin=coin)
        log.append("trade", *encoded(msgspec.structs.replace(late, event_ts=BASE + 2 * 3_600_000)))
    store.run()
    ours = {row["period_s"]: row for row in rows_of(spark, "ohlc", "SIM:LATE")}
    assert (ours[60]["close"], ours[60]["volume"], ours[60]["trades"]) == (Decimal(15), Decimal(3), 2)
    assert (ours[60]["closed"], ours[60]["rev"], ours[60]["source"]) == (True, 1, "live")
    assert 86_400 not in ours, "the day is not over"
    theirs = {row["period_s"]: row for row in rows_of(spark, "ohlc", "SIM:WORD")}
    assert (theirs[60]["close"], theirs[60]["rev"]) == (Decimal(20), 0)


def test_marks_become_gaps(spark: House, log: Log) -> None:
    mark = Mark(provider="marked", epoch=1, ts=BASE, from_ms=BASE - 5, to_ms=BASE, cause="stop", coin="BTC")
    log.append("feed", *encoded(mark, mark))
    Stored(spark, log).run()
    found = [row for row in spark.lake.scan("gaps").to_pylist() if row["provider"] == "marked"]
    assert [(row["market"], row["cause"], row["repaired_at"]) for row in found] == [("BTC", "stop", None)]


def book(coin: str, ts: int) -> Book:
    levels = ((Decimal(10), Decimal(1)), (Decimal(9), Decimal(2)))
    return Book(provider="sim", event_ts=ts, epoch=1, seq=1, coin=coin, ts=ts, bids=levels, asks=levels[::-1])


def test_an_error_of_spark_is_said_in_the_words_of_its_last_cause() -> None:
    java = "An error occurred while calling o14.merge.\n: org.SparkException: Job aborted\n\tat x\n"
    assert reason(Exception(java)) == "org.SparkException: Job aborted"
    assert reason(Exception(java + "Caused by: java.io.IOException: No space left\n\tat y")) == (
        "java.io.IOException: No space left"
    )
    python = "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    raised = '  File "x.py", line 1, in call\n    work()\nartery.errors.Limit: too large\n\nSQLSTATE: XXKST'
    assert reason(Exception(python + raised)) == "artery.errors.Limit: too large"
    assert reason(Exception()) == "Exception"
