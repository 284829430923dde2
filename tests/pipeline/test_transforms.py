"""Spark's fold of the lake's trades equals the pure fold of the trades."""

import random
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from artery.lake.tables import TRADES
from artery.model import fold
from artery.model.periods import DERIVED
from artery.pipeline.bars import BAR, SCHEMA, batch_of
from artery.pipeline.corrections import table_of
from artery.pipeline.transforms import partials, within_windows
from tests.pipeline.conftest import House
from tests.pipeline.test_bars import BASE, entries, trade, trade_rows


def folded(spark: House, rows: list[dict[str, object]]) -> pa.Table:
    made = partials(spark.session.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA)), DERIVED)
    return made.select("*", F.lit(BAR).alias("kind"), F.lit("1").alias("up_to")).toArrow()


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


def test_no_trade_but_those_of_the_late_windows_is_folded_again(spark: House) -> None:
    """One trade that is a day late and one of an hour ago must not have the whole day of all markets sorted."""
    same = {"price": Decimal(1), "size": Decimal(1), "side": "B", "provider": "sim", "epoch": 1, "seq": 1}
    at = {"a": ("BTC", 0), "b": ("BTC", 59_999), "c": ("BTC", 60_000), "d": ("ETH", 30_000), "e": ("ETH", 82_800_000)}
    rows = []
    for tid, (coin, ms) in at.items():
        ts = datetime.fromtimestamp((BASE + ms) / 1_000, UTC)
        rows.append(same | {"ticker": f"SIM:{coin}", "tid": tid, "ts": ts, "received": ts})
    windows = table_of([("sim", "BTC", 60, BASE), ("sim", "BTC", 5, BASE), ("sim", "ETH", 60, BASE + 82_800_000)])
    stored = pa.Table.from_pylist(rows, TRADES.schema)
    trades, late = (spark.session.createDataFrame(made) for made in (stored, windows))
    found = within_windows(trades, late).toArrow()
    assert found.schema.names == TRADES.schema.names
    assert sorted(found["tid"].to_pylist()) == ["a", "b", "e"], "each once, though in two windows"
