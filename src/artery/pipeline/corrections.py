"""Candles that the lake folds anew: trades came too late for the candle query, or it left their candles to the lake."""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery.lake.places import NAME
from artery.lake.tables import OHLC, TIME, TRADES
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.pipeline import merges
from artery.pipeline.candles import KEEP_MS
from artery.pipeline.merges import Slice
from artery.pipeline.parts import Key
from artery.pipeline.rows import candle_of
from artery.pipeline.transforms import candles_of, late_windows, within_windows

_KEY: dict[str, pa.DataType] = {"ticker": pa.string(), "period_s": pa.int32(), "start": TIME}


class Backlog(Protocol):
    """What the candle query has left to the lake."""

    def owed(self, up_to: str) -> Sequence[Key]:
        """The candles to be folded anew by a lake that has the trades up to there."""

    def settle(self, keys: Sequence[Key], up_to: str) -> None:
        """They were, and were announced."""


class _Nothing:
    def owed(self, _up_to: str) -> Sequence[Key]:
        return ()

    def settle(self, _keys: Sequence[Key], _up_to: str) -> None:
        pass


NO_BACKLOG: Backlog = _Nothing()


def recompute(mine: DataFrame, owed: Sequence[Key], periods: Sequence[Period]) -> list[Candle]:
    """Fold the candles anew that trades of the batch are too late for, and those that are `owed`, from the lake and the
    batch; return them as the lake has them now."""
    late = late_windows(mine, KEEP_MS, periods)
    if owed:
        late = late.unionByName(mine.sparkSession.createDataFrame(table_of(owed))).distinct()
    late = late.persist()
    try:
        return _correct(mine.sparkSession, mine, late)
    finally:
        late.unpersist()


def table_of(keys: Sequence[Key]) -> pa.Table:
    """Candles by the lake's names."""
    rows = [(ticker(provider, coin), period_s, start_ms * 1_000) for provider, coin, period_s, start_ms in keys]
    return pa.Table.from_pylist([dict(zip(_KEY, row, strict=True)) for row in rows], schema=pa.schema(_KEY))


def _correct(session: Any, mine: DataFrame, late: DataFrame) -> list[Candle]:
    start_us = F.unix_micros("start")
    found = late.agg(F.min(start_us), F.max(start_us), F.collect_set("period_s"), F.collect_set("ticker")).first()
    if found is None or found[0] is None:
        return []
    part = Slice(found[0], found[1], tuple(sorted(found[2])))
    reach = Slice(part.low, part.high + max(part.periods) * 1_000_000)
    kept = session.table(f"{NAME}.{TRADES.full_name}").unionByName(mine)
    near = kept.where(merges.within(F.col("ts"), reach) & F.col("ticker").isin(*found[3]))
    inside = within_windows(near, late).dropDuplicates(list(TRADES.key))
    merges.merge_recomputed(candles_of(inside, late), part)
    stored = session.table(f"{NAME}.{OHLC.full_name}").where(merges.within(F.col("start"), part))
    corrected = stored.where(F.col("period_s").isin(*part.periods)).join(late, [*OHLC.key], "left_semi")
    return [candle_of(row) for row in corrected.toArrow().to_pylist()]
