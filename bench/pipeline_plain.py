"""`python -m bench.pipeline_plain FOLDER TRADES MARKETS FILES`: candles as Spark's guide makes them; prints trades/s.

Raw trades as JSON lines, `from_json`, one row for each of six periods, a window of its own state for each candle.
"""

import sys
import time
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from artery.model.periods import DERIVED
from bench.pipeline_market import past

_FIELDS = "provider string, coin string, ts string, seq string, px string, sz string"


def write(folder: Path, trades: int, markets: int, files: int) -> None:
    """The trades as files of JSON lines, of which a micro-batch takes one."""
    encoder, folder = msgspec.json.Encoder(), folder / "trades"
    folder.mkdir(parents=True)
    size, count = trades // files, 0
    lines: list[bytes] = []
    for entries in past(trades, markets):
        lines.append(encoder.encode_lines(entries))
        count += len(entries)
        if count % size == 0:
            (folder / f"{count:010d}.json").write_bytes(b"".join(lines))
            lines.clear()


def candles(lines: DataFrame) -> DataFrame:
    """The plain recipe."""
    exact = "decimal(38,18)"
    trade = lines.select(F.from_json("value", _FIELDS).alias("trade")).select("trade.*")
    at = F.timestamp_millis(F.col("ts").cast("long"))
    typed = trade.select(
        "provider", "coin", at.alias("at"), F.col("seq").cast("long"), F.col("px").cast(exact), F.col("sz").cast(exact)
    ).withWatermark("at", "10 seconds")
    periods = F.array(*[F.lit(period.seconds) for period in DERIVED])
    length = F.col("period_s").cast("long") * F.lit(1_000_000)
    start = (F.unix_micros("at") - F.unix_micros("at") % length).alias("start")
    place = F.struct("at", "seq")
    return (
        typed.select("*", F.explode(periods).alias("period_s"))
        .groupBy("provider", "coin", "period_s", start)
        .agg(
            F.min_by("px", place).alias("o"),
            F.max("px").alias("h"),
            F.min("px").alias("l"),
            F.max_by("px", place).alias("c"),
            F.sum("sz").alias("v"),
            F.count("*").alias("n"),
        )
    )


def main() -> None:
    folder, trades, markets, files = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    write(folder, trades, markets, files)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    done: list[float] = []
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(f"{folder}/trades")

    def seen(frame: DataFrame, _batch: int) -> None:
        frame.toArrow()
        done.append(time.monotonic())

    query = candles(lines).writeStream.outputMode("update").foreachBatch(seen)
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    batch = trades / files
    print((files - 1) * batch / (done[files - 1] - done[0]))


if __name__ == "__main__":
    main()
