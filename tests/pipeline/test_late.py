"""Trades that come late, low or absurd, through both queries and the lake: bus and lake end with the fold of all."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pytest

from artery.model.events import Trade
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_storage import rows_of
from tests.pipeline.whole import BASE, DAY, Whole, came, newest, values, wanted

HOUR = 3_600_000
ONE = Decimal(10)


def agree(whole: Whole, coin: str, trades: Sequence[Trade]) -> None:
    """All closes; then the bus has the fold, and so has the lake."""
    whole.end(BASE + 10 * DAY)
    assert {key: values(candle) for key, candle in newest(whole.shown()).items()} == wanted(trades)
    assert whole.stored(coin) == wanted(trades)


def test_a_trade_with_a_lower_place_than_one_before_it_is_in_its_candle(spark: House, log: Log) -> None:
    whole = Whole(spark, log, number=9_101)
    trades = [came(seq, BASE + seq, 0, ONE + seq, "LOWER") for seq in range(1, 4)]
    for one in (trades[1], trades[0], trades[2], trades[0]):
        whole.take([one], BASE)
        whole.fold()
    assert {candle.n for candle in newest(whole.shown()).values()} == {3}
    assert whole.fast._book.stale == 0
    agree(whole, "LOWER", trades)


def test_what_may_have_been_taken_before_is_decided_by_the_lake(spark: House, log: Log) -> None:
    """More holes than are remembered: of two trades in such a place one was taken, the other one is new."""
    whole, coin = Whole(spark, log, number=9_102), "DOUBT"
    trades = [came(seq, BASE + seq * 1_000, 0, ONE + seq, coin) for seq in range(1, 61)]
    odd, even = trades[::2], trades[1::2]
    whole.take(odd, BASE + 61_000)
    whole.run()
    whole.take([odd[3], even[3]], BASE + 62_000)
    whole.run()
    assert whole.fast._book.stale > 0, "they are counted"
    whole.begin()  # what is owed outlives the driver
    whole.take([], BASE + DAY)
    whole.run()
    agree(whole, coin, [*odd, even[3]])


@pytest.mark.parametrize("revised", [False, True])
def test_a_candle_that_the_lake_does_not_have_yet_is_corrected_on_the_bus_too(
    spark: House, log: Log, *, revised: bool
) -> None:
    coin = f"UNSTORED{revised}"
    whole = Whole(spark, log, number=9_103 + revised)
    trades = [came(1, BASE, 0, ONE, coin), came(2, BASE + 3 * HOUR, 3 * HOUR - 1, ONE + 1, coin)]
    whole.take(trades[:1], BASE + 10 * 60_000)
    whole.fold()
    if revised:
        trades.append(came(3, BASE + 11 * 60_000, 11 * 60_000 - 2, ONE + 2, coin))
        whole.take(trades[2:], BASE + 11 * 60_000)
        whole.fold()
    whole.take([], BASE + 3 * HOUR)
    whole.fold()  # and meanwhile the warehouse is full
    whole.take(trades[1:2], BASE + 3 * HOUR)
    whole.fold()
    whole.storage.run(but="candle")
    minute = newest(whole.shown())["sim", coin, 60, BASE]
    assert values(minute) == wanted(trades)["sim", coin, 60, BASE], "no reader takes an equal rev for a correction"
    agree(whole, coin, trades)


def test_absurd_trades_are_stored_and_spoil_no_candle_of_the_lake(spark: House, log: Log) -> None:
    coin = "ABSURD"
    whole = Whole(spark, log, number=9_105)
    huge = Decimal("99999999999999999999")
    trades = [came(seq, BASE + 5 * HOUR, 5 * HOUR - seq, ONE, coin) for seq in range(1, 5)]
    trades[:2] = [msgspec.structs.replace(one, sz=huge) for one in trades[:2]]
    ahead = came(5, BASE + 5 * HOUR, -2 * DAY, ONE, coin)
    whole.take([*trades, ahead], BASE + 5 * HOUR)
    whole.run()
    assert len(rows_of(spark, "trades", f"SIM:{coin}")) == 5
    whole.log.do(lambda: whole.store.delete("artery:pipeline:candles:9105"))
    whole.log.do(lambda: log.bus.trim("trade", keep=1))
    whole.now_ms = BASE + 5 * HOUR
    whole.begin()  # folded anew from the lake
    late = came(6, BASE + 6 * HOUR, 6 * HOUR - 9, ONE, coin)
    whole.take([late], BASE + 6 * HOUR)
    whole.run()
    whole.end(BASE + 10 * DAY)
    assert whole.stored(coin) == wanted([*trades, ahead, late])
