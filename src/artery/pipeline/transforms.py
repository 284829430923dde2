"""`DataFrame → DataFrame`, without a session: the same for the stream and for a backfill."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that everyone gives it)

from artery.model.periods import DERIVED, Period
from artery.pipeline.bars import BAR

COLUMNS = (
    "kind",
    "provider",
    "coin",
    "period_s",
    "start_ms",
    "first",
    "last",
    "o",
    "h",
    "l",
    "c",
    "v",
    "n",
    "up_to",
    "at",
)


def partials(rows: DataFrame, periods: Sequence[Period] = DERIVED) -> DataFrame:
    """One-second bars folded into every period; clocks and a venue's candles pass through the same fold unchanged.

    Open and close are decided by place, because order is lost in a shuffle.
    """
    each = F.when(F.col("kind") == BAR, F.array(*[F.lit(period.seconds) for period in periods]))
    spread = rows.select(*COLUMNS).withColumn("period_s", F.explode(F.coalesce(each, F.array("period_s"))))
    length_ms = F.col("period_s").cast("long") * F.lit(1_000)
    start = F.when(length_ms > 0, F.col("start_ms") - F.col("start_ms") % length_ms).otherwise(F.col("start_ms"))
    folded = (
        spread.withColumn("start_ms", start)
        .groupBy("kind", "provider", "coin", "period_s", "start_ms")
        .agg(
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min_by("o", "first").alias("o"),
            F.max("h").alias("h"),
            F.min("l").alias("l"),
            F.max_by("c", "last").alias("c"),
            F.sum("v").alias("v"),
            F.sum("n").alias("n"),
            F.max_by("up_to", "at").alias("up_to"),
            F.max("at").alias("at"),
        )
    )
    return folded.select(*COLUMNS)
