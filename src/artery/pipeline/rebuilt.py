"""The candle book without what was saved of it: folded anew from the lake's trades, up to the position they reach.

A log that was trimmed does not begin where the open candles do. Folded from it alone, they would be candles of which a
part is missing, and take the place of whole ones. The lake has those trades: the trimmer waits for it.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery.lake.places import NAME
from artery.lake.tables import OHLC, TRADES
from artery.model.events import Candle
from artery.model.fold import Bar
from artery.model.periods import Period
from artery.model.taken import Market, Run
from artery.model.tickers import parse_ticker
from artery.pipeline.bars import BAR, batch_of
from artery.pipeline.candles import KEEP_MS
from artery.pipeline.merges import Slice, within
from artery.pipeline.minutes import Minutes
from artery.pipeline.parts import Held, Key, State
from artery.pipeline.rows import candle_of
from artery.pipeline.transforms import SLACK_MS, counting, partials


class Rebuilt(msgspec.Struct, frozen=True):
    """What a book has to become, the lake's own candles of that time, and the place in the log's trades of both."""

    state: State
    candles: Sequence[Candle]
    position: str


def rebuild(session: Any, periods: Sequence[Period], position: str, now_ms: int) -> Rebuilt:
    """Every candle that a book would hold after the trades up to `position`, which are all that the lake has.

    All of them are open, and those that are over close with the clock of the first batch, unless the venue has spoken.
    """
    trades = session.table(f"{NAME}.{TRADES.full_name}")
    newest_ms = trades.agg(F.max(F.unix_millis("ts"))).first()[0]
    if newest_ms is None:
        return Rebuilt(State([], [], {}, [], Minutes()), [], position)
    clock_ms = min(newest_ms, now_ms) - SLACK_MS
    low_ms = min(_oldest(period, clock_ms) for period in periods)
    reach = Slice(low_ms * 1_000, max(newest_ms, now_ms) * 1_000)
    inside = trades.where((F.col("epoch") > 0) & within(F.col("ts"), reach))
    candles = _candles(session, periods, reach, clock_ms)
    held = _held(counting(inside), periods, position, clock_ms)
    held |= {candle.key: Held(_whole(candle), closed=True, venue=True) for candle, own in candles if not own}
    clocks = dict.fromkeys({key[0] for key in held}, clock_ms)
    lengths = sorted(period.seconds for period in periods)
    state = State(list(held.items()), [], clocks, [], Minutes(), periods=lengths, taken=list(_taken(inside).items()))
    return Rebuilt(state, [candle for candle, _ in candles], position)


def _oldest(period: Period, clock_ms: int) -> int:
    """Where the oldest candle of this length starts that a book holds at this time."""
    return period.start(clock_ms - max(KEEP_MS, 2 * period.ms)) - period.ms


def _held(trades: DataFrame, periods: Sequence[Period], position: str, clock_ms: int) -> dict[Key, Held]:
    """Folded twice, first into short bars: to spread every trade over every length would be much more."""
    short = Period(gcd(*(period.seconds for period in periods)))
    folded = partials(partials(trades.select(*_as_bars()), [short]), periods)
    found, _ = batch_of(folded.select("*", F.lit(BAR).alias("kind"), F.lit(position).alias("up_to")).toArrow())
    oldest = {period.seconds: _oldest(period, clock_ms) for period in periods}
    return {
        (*parse_ticker(name), period_s, start_ms): Held(partial.bar, partial.up_to)
        for partial in found.partials
        for _, name, period_s, start_ms in [partial.key]
        if start_ms >= oldest[period_s]
    }


def _as_bars() -> list[Column]:
    """A trade as the shortest of bars, under its ticker's name."""
    here = F.struct(F.unix_millis("ts").alias("ts"), "epoch", "seq")
    prices = [F.col("price").alias(name) for name in "ohlc"]
    head = [F.lit("").alias("provider"), F.col("ticker").alias("coin"), F.unix_millis("ts").alias("start_ms")]
    return [
        *head,
        here.alias("first"),
        here.alias("last"),
        *prices,
        F.col("size").alias("v"),
        F.lit(1).cast("long").alias("n"),
    ]


def _candles(session: Any, periods: Sequence[Period], reach: Slice, clock_ms: int) -> list[tuple[Candle, bool]]:
    """The lake's candles of that time, and whether each is our own."""
    rows = session.table(f"{NAME}.{OHLC.full_name}").where(within(F.col("start"), reach))
    recent = F.lit(False)
    for period in periods:
        oldest = F.timestamp_millis(F.lit(_oldest(period, clock_ms)))
        recent = recent | ((F.col("period_s") == F.lit(period.seconds)) & (F.col("start") >= oldest))
    found = rows.where(recent).toArrow().to_pylist()
    return [(candle_of(row), row["source"] != "history") for row in found]


def _taken(trades: DataFrame) -> dict[Market, list[Run]]:
    """One run of each epoch; the trades of a market that do not follow each other are in doubt if they come again."""
    ends = (F.min("seq").alias("first"), F.max("seq").alias("last"), F.count_distinct("seq").alias("count"))
    found: dict[Market, list[Run]] = {}
    for row in trades.groupBy("ticker", "epoch").agg(*ends).orderBy("epoch").collect():
        first, last, whole = row["first"], row["last"], row["count"] == row["last"] - row["first"] + 1
        run = Run((row["epoch"], first), (row["epoch"], last), whole)
        found.setdefault(parse_ticker(row["ticker"]), []).append(run)
    return found


def _whole(candle: Candle) -> Bar:
    first, last = (candle.start_ts, 0, 0), (candle.end_ts - 1, 2**62, 2**62)
    return Bar(first, last, candle.o, candle.h, candle.l, candle.c, candle.v, candle.n)
