"""Indicators over the lake: the same definitions as live, folded by Spark, one series a task.

A series that begins with the candle that the engine's record names in `from` has the engine's bits.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery.indicators.bar import bar
from artery.indicators.standard import NAMES, VWAP, fold
from artery.indicators.vwap import DAY_MS, Vwap, has_vwap
from artery.lake.tables import TIME
from artery.model.periods import Period
from artery.pipeline.transforms import counting

Begin = Mapping[tuple[str, int], int]
"""Of each series, (ticker, period in s): the start in ms of the candle that it begins with."""

_KEY: dict[str, pa.DataType] = {"ticker": pa.string(), "period_s": pa.int32(), "start": TIME}
_NUMBERS: dict[str, pa.DataType] = dict.fromkeys(NAMES, pa.float64())
_REV: dict[str, pa.DataType] = {"rev": pa.int32()}
_AVERAGE: dict[str, pa.DataType] = {VWAP: pa.float64()}
_VALUES = pa.schema(_KEY | _REV | _NUMBERS)
_AVERAGES = pa.schema(_KEY | _AVERAGE)
_KEY_SQL = "ticker string, period_s int, start timestamp"
_VALUES_SQL = f"{_KEY_SQL}, rev int, {', '.join(f'{name} double' for name in NAMES)}"
_AVERAGES_SQL = f"{_KEY_SQL}, {VWAP} double"
_BAR = ("rev", "open", "high", "low", "close", "volume")


def indicators(candles: DataFrame, begin: Begin | None = None) -> DataFrame:
    """The values of each closed row of `ohlc`; a series that `begin` does not name begins with its first row."""
    begins = dict(begin or {})

    def folded(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        ticker, period_s = key[0].as_py(), key[1].as_py()
        return _folded(ticker, period_s, rows, begins.get((ticker, period_s), 0))

    closed = candles.where("closed").select("ticker", "period_s", "start", *_BAR)
    return closed.groupBy("ticker", "period_s").applyInArrow(folded, _VALUES_SQL)


def averages(candles: DataFrame, trades: DataFrame) -> DataFrame:
    """The VWAP of each closed row of `ohlc`, from the rows of `trades` of its day."""
    day = F.floor(F.unix_millis("start") / F.lit(DAY_MS)).alias("day")
    traded_day = F.floor(F.unix_millis("ts") / F.lit(DAY_MS)).alias("day")
    left = candles.where("closed").select("ticker", "period_s", "start", day)
    right = counting(trades).select("ticker", "ts", "price", "size", traded_day)
    pairs = left.groupBy("ticker", "day").cogroup(right.groupBy("ticker", "day"))
    return pairs.applyInArrow(_averaged, _AVERAGES_SQL)


def _folded(ticker: str, period_s: int, rows: pa.Table, begin_ms: int) -> pa.Table:
    ordered = rows.sort_by("start")
    numbers = zip(_times(ordered, "start"), *[_column(ordered, name) for name in _BAR], strict=True)
    found = list(fold(bar(*row) for row in numbers if row[0] >= begin_ms))
    key = {"ticker": ticker, "period_s": period_s}
    made = [
        key | {"start": one.start * 1_000, "rev": one.rev} | dict(zip(NAMES, row, strict=True)) for one, row in found
    ]
    return pa.Table.from_pylist(made, schema=_VALUES)


def _averaged(candles: pa.Table, trades: pa.Table) -> pa.Table:
    """One market's day."""
    sums = Vwap(fine_ms=2 * DAY_MS)
    for trade in zip(_times(trades, "ts"), _column(trades, "price"), _column(trades, "size"), strict=True):
        sums.add(*trade)
    made = []
    for ticker, seconds, start in zip(
        _column(candles, "ticker"), _column(candles, "period_s"), _times(candles, "start"), strict=True
    ):
        period = Period(seconds)
        found = sums.at(start, start + period.ms) if has_vwap(period) else None
        made.append({"ticker": ticker, "period_s": seconds, "start": start * 1_000, VWAP: found})
    return pa.Table.from_pylist(made, schema=_AVERAGES)


def _column(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist()


def _times(table: pa.Table, name: str) -> list[int]:
    """Times of the lake, which are in µs, in ms."""
    micros: list[Any] = table[name].cast(pa.int64()).to_pylist()
    return [at // 1_000 for at in micros]
