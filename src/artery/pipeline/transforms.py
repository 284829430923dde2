"""`DataFrame → DataFrame`, without a session: the same for the stream and for a backfill."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that everyone gives it)

from artery.model.fold import AHEAD_MAX_MS, SIZE_MAX
from artery.model.periods import DERIVED, Period

KEY = ("provider", "coin", "period_s", "start_ms")
SLACK_MS = 300_000
VALUES = ("first", "last", "o", "h", "l", "c", "v", "n")


def partials(bars: DataFrame, periods: Sequence[Period] = DERIVED) -> DataFrame:
    """Short bars folded into every period. Open and close are decided by place, because order is lost in a shuffle."""
    period_s = F.explode(F.array(*[F.lit(period.seconds) for period in periods])).alias("period_s")
    spread = bars.select(*[period_s if name == "period_s" else F.col(name) for name in KEY + VALUES])
    length_ms = F.col("period_s").cast("long") * F.lit(1_000)
    start = (F.col("start_ms") - F.col("start_ms") % length_ms).alias("start_ms")
    # A value together with what decides it: one comparison a row, not two.
    folded = spread.groupBy(*[start if name == "start_ms" else F.col(name) for name in KEY]).agg(
        F.min(F.struct("first", "o")).alias("opened"),
        F.max(F.struct("last", "c")).alias("closed"),
        F.max("h").alias("h"),
        F.min("l").alias("l"),
        F.sum("v").alias("v"),
        F.sum("n").alias("n"),
    )
    inside = {"first": "opened", "o": "opened", "last": "closed", "c": "closed"}
    return folded.select(*[F.col(f"{inside[name]}.{name}" if name in inside else name) for name in KEY + VALUES])


def counting(trades: DataFrame) -> DataFrame:
    """Rows of `trades` that are folded: not foreign ones, for which no clock vouches, nor absurd ones."""
    ahead_ms = F.unix_millis("ts") - F.unix_millis("received")
    sound = (F.col("size") < F.lit(SIZE_MAX)) & (ahead_ms <= F.lit(AHEAD_MAX_MS))
    return trades.where((F.col("epoch") > 0) & sound)


def late_windows(trades: DataFrame, keep_ms: int, periods: Sequence[Period] = DERIVED) -> DataFrame:
    """The candles that were over for about `keep_ms` (and two of their lengths) or longer when these trades came.

    A few minutes less count too: a candle that is folded once more than needed stays as it is.
    """
    period_s = F.explode(F.array(*[F.lit(period.seconds) for period in periods])).alias("period_s")
    length_ms = F.col("period_s").cast("long") * F.lit(1_000)
    ts_ms, received_ms = F.unix_millis("ts"), F.unix_millis("received")
    start_ms = ts_ms - ts_ms % length_ms
    over_ms = received_ms - start_ms - length_ms
    return (
        counting(trades)
        .select("ticker", "ts", "received", period_s)
        .where(over_ms + F.lit(SLACK_MS) >= F.greatest(F.lit(keep_ms), length_ms * F.lit(2)))
        .select("ticker", "period_s", F.timestamp_millis(start_ms).alias("start"))
        .distinct()
    )


def within_windows(trades: DataFrame, windows: DataFrame) -> DataFrame:
    """The trades that lie in one of these windows; all of the time around them may be a whole day of every market."""
    of = windows.select(F.col("ticker").alias("of"), F.col("start").alias("low"), _end().alias("high"))
    inside = (F.col("ts") >= F.col("low")) & (F.col("ts") < F.col("high"))
    return trades.join(of, (F.col("ticker") == F.col("of")) & inside, "left_semi")


def candles_of(trades: DataFrame, windows: DataFrame) -> DataFrame:
    """These windows as closed rows of `ohlc`, folded from the lake's trades.

    A row that the lake does not have yet is a correction too: the bus may have had the candle without these trades.
    """
    place = F.struct("ts", "epoch", "seq")
    inside = (F.col("ts") >= F.col("start")) & (F.col("ts") < _end())
    return (
        counting(trades)
        .join(windows.withColumnRenamed("ticker", "of"), (F.col("ticker") == F.col("of")) & inside, "inner")
        .groupBy("ticker", "period_s", "start")
        .agg(
            F.min_by("price", place).alias("open"),
            F.max("price").alias("high"),
            F.min("price").alias("low"),
            F.max_by("price", place).alias("close"),
            F.sum("size").alias("volume"),
            F.count("*").alias("trades"),
        )
        .select(
            "*",
            F.lit(True).alias("closed"),
            F.lit(1).alias("rev"),
            F.lit("live").alias("source"),
            F.current_timestamp().alias("updated"),
        )
    )


def _end() -> Column:
    """Where a window ends."""
    return F.timestamp_millis(F.unix_millis("start") + F.col("period_s").cast("long") * F.lit(1_000))
