"""Spark's fold of one-second bars equals the pure fold of the trades."""

import random
from decimal import Decimal

import pyarrow as pa

from artery.model import fold
from artery.model.events import Clock, Trade
from artery.model.periods import DERIVED, Period
from artery.pipeline.bars import batch_of, record_batch
from artery.pipeline.transforms import partials
from tests.pipeline.conftest import House
from tests.pipeline.test_bars import BASE, entries, feed_rows, history_rows, page, raw, trade, trade_rows, venue


def folded(spark: House, rows: list[dict[str, object]], periods: tuple[Period, ...] = DERIVED) -> pa.Table:
    frame = spark.session.createDataFrame(pa.Table.from_batches([record_batch(rows, {"trade": "1"})]))
    return partials(frame, periods).toArrow()


def test_every_period_is_the_exact_fold_whatever_the_order(spark: House) -> None:
    chance = random.Random(7)
    trades = [
        trade(
            seq,
            BASE + chance.randrange(0, 7_200_000),
            px=f"{chance.randrange(1, 10**9)}.{chance.randrange(10**9):09d}",
            sz=f"0.{chance.randrange(1, 10**18):018d}",
            coin=chance.choice(["BTC", "ETH"]),
        )
        for seq in range(1, 400)
    ]
    rows = trade_rows(entries(*trades))
    chance.shuffle(rows)
    found = {partial.key: partial for partial in batch_of(folded(spark, rows))[0].partials}
    wanted: dict[tuple[str, str, int, int], fold.Bar] = {}
    for period in DERIVED:
        for (provider, coin, start), bar in fold.bars(trades, period).items():
            wanted[(provider, coin, period.seconds, start)] = bar
    assert {key: partial.bar for key, partial in found.items()} == wanted


def test_the_newest_position_is_by_number_not_by_text(spark: House) -> None:
    first, second = trade_rows(entries(trade(1, BASE))), trade_rows([raw(10, codec_of(trade(2, BASE + 1_000)))])
    first[0] |= {"up_to": "9", "at": [9]}
    found = batch_of(folded(spark, first + second, (Period(60),)))[0].partials
    assert [partial.up_to for partial in found] == ["10"]


def test_clocks_history_and_the_end_pass_unchanged(spark: House) -> None:
    clock = Clock(provider="sim", epoch=1, ts=BASE + 5)
    rows = feed_rows([raw(1, codec_of(clock))]) + history_rows([raw(1, page(venue(BASE), venue(BASE + 60_000)))])
    batch, end = batch_of(folded(spark, rows))
    assert batch.clocks == {"sim": BASE + 5}
    assert sorted((c.start_ts, c.period.seconds, c.v, c.n) for c in batch.venue) == [
        (BASE, 60, Decimal(3), 2),
        (BASE + 60_000, 60, Decimal(3), 2),
    ]
    assert end == {"trade": "1"}


def codec_of(event: Trade | Clock) -> dict[str, str]:
    from artery.model import codec

    return codec.encode(event)
