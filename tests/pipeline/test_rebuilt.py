"""A store that was lost costs no candle: the book is folded anew from the lake, and goes on with the log."""

from decimal import Decimal

import msgspec

from artery.model import codec
from artery.model.events import Trade
from artery.model.periods import Period
from artery.pipeline import shelf
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_storage import own, page
from tests.pipeline.whole import BASE, DAY, Whole, came, newest, values, wanted

LOG = 77_001
STEP = 20_000


def quarter(coin: str) -> list[Trade]:
    """Trades of twenty minutes."""
    return [came(seq, BASE + seq * STEP, 0, Decimal(100 + seq % 13), coin) for seq in range(1, 61)]


def lose_the_store(whole: Whole, now_ms: int) -> None:
    """A driver that begins without what was saved, on a log that was trimmed."""
    whole.log.do(lambda: whole.store.delete(f"{shelf.KEY}{whole.number}"))
    whole.log.do(lambda: whole.log.bus.trim("trade", keep=5))
    whole.now_ms = now_ms
    whole.begin()


def test_a_store_that_was_lost_leaves_whole_candles_whole(spark: House, log: Log) -> None:
    trades = quarter("LOSTBOOK")
    whole = Whole(spark, log, LOG)
    whole.take(trades[:40], BASE + 40 * STEP)
    whole.run()
    lose_the_store(whole, BASE + 40 * STEP)
    whole.take(trades[40:], BASE + 60 * STEP)
    whole.run()
    whole.end(BASE + DAY)
    shown = newest([candle for candle in whole.shown() if candle.coin == "LOSTBOOK"])  # the lake has others too
    assert {key: values(candle) for key, candle in shown.items()} == wanted(trades)
    assert not any(candle.rev for candle in shown.values())
    assert whole.stored("LOSTBOOK") == wanted(trades)


def test_what_the_venue_has_said_stands_though_the_store_was_lost(spark: House, log: Log) -> None:
    trades = quarter("LOSTVENUE")
    minute = BASE + 10 * 60_000
    whole = Whole(spark, log, LOG + 1)
    log.append("history", page(own("LOSTVENUE", "99", closed=True, start=minute)))
    whole.take(trades[:40], BASE + 40 * STEP)
    whole.run()
    lose_the_store(whole, BASE + 40 * STEP)
    whole.take([*trades[40:], came(61, BASE + 60 * STEP, BASE + 60 * STEP - minute, Decimal(7), "LOSTVENUE")], BASE)
    whole.run()
    whole.end(BASE + DAY)
    said = [candle.rev for candle in whole.shown() if candle.key == ("sim", "LOSTVENUE", 60, minute)]
    assert said == [0], "ours was said again, over the venue's"
    assert whole.stored("LOSTVENUE")["sim", "LOSTVENUE", 60, minute] == ("10", "99", "10", "99", "1", "1")


def test_a_period_that_is_added_in_mid_time_closes_with_all_of_its_trades(spark: House, log: Log) -> None:
    trades = quarter("ADDED")
    whole = Whole(spark, log, LOG + 3, periods=[Period(60), Period(120)])
    whole.take(trades[:20], BASE + 20 * STEP)
    whole.run()
    for number, periods in enumerate(([Period(60), Period(300), Period(1_200)], [Period(300), Period(1_200)]), 1):
        whole.periods, whole.now_ms = periods, BASE + number * 20 * STEP
        whole.begin()
        whole.take(trades[number * 20 : number * 20 + 20], BASE + (number + 1) * 20 * STEP)
        whole.run()
    whole.end(BASE + DAY)
    shown = {key: values(one) for key, one in newest(whole.shown()).items() if one.coin == "ADDED" and one.closed}
    longer = wanted(trades, [Period(300), Period(1_200)])
    assert {key: found for key, found in shown.items() if key[2] >= 300} == longer
    assert {key[2] for key in shown} == {60, 120, 300, 1_200}
    whole_minutes = wanted(trades, [Period(60), Period(120)])
    assert all(whole_minutes[key] == found for key, found in shown.items() if key[2] < 300), "one closed in part"


def test_a_book_that_does_not_say_its_periods_is_folded_anew(spark: House, log: Log) -> None:
    trades = quarter("FORMER")
    whole = Whole(spark, log, LOG + 4, periods=[Period(300)])
    whole.take(trades[:30], BASE + 30 * STEP)
    whole.run()
    kept = log.do(lambda: shelf.read(whole.store, LOG + 4))
    assert kept is not None
    former = msgspec.structs.replace(kept, state=msgspec.structs.replace(kept.state, held=[], periods=[]))
    log.do(lambda: shelf.write(whole.store, LOG + 4, former))
    whole.now_ms = BASE + 30 * STEP
    whole.begin()
    whole.take(trades[30:], BASE + 60 * STEP)
    whole.run()
    whole.end(BASE + DAY)
    shown = newest([candle for candle in whole.shown() if candle.coin == "FORMER"])
    assert {key: values(candle) for key, candle in shown.items()} == wanted(trades, [Period(300)])


def test_a_log_of_which_the_lake_has_nothing_is_read_from_where_it_begins(spark: House, log: Log) -> None:
    log.append("trade", *[codec.encode(one) for one in quarter("LOSTALL")])
    log.do(lambda: log.bus.trim("trade", keep=5))
    assert Whole(spark, log, LOG + 2).at["trade"] == "55"
