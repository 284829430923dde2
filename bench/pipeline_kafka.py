"""A log in Kafka, read by our source and by Spark's own connector: the same trades, the same candles.

`python -m bench.pipeline_kafka FOLDER BROKERS TOPIC TRADES HOW` prints trades/s of the connector, with Spark's
`from_json` (HOW 0) or with our fold of each batch in Python (HOW 1).
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from artery.model.periods import DERIVED
from artery.pipeline.bars import SCHEMA
from artery.pipeline.folding import trade_bars
from artery.pipeline.transforms import partials
from bench.pipeline_catch_up import apart
from bench.rows import Row, row
from tests.kafka import JARS, KafkaServer

TRADES, MARKETS = 1_000_000, 20
BATCH = 100_000
_FIELDS = "provider string, coin string, ts string, epoch string, seq string, px string, sz string"
_CONNECTOR = JARS.parent / "kafka"


def parsed(values: DataFrame) -> DataFrame:
    """Parts of candles, by Spark's own functions alone: each trade is first a bar of its own."""
    exact = "decimal(38,18)"
    trade = values.select(F.from_json(F.col("value").cast("string"), _FIELDS).alias("t")).select("t.*")
    place = F.struct(*(F.col(name).cast("long").alias(name) for name in ("ts", "epoch", "seq")))
    price = F.col("px").cast(exact)
    columns = {
        "provider": F.col("provider"),
        "coin": F.col("coin"),
        "start_ms": F.col("ts").cast("long"),
        "first": place,
        "last": place,
        **dict.fromkeys("ohlc", price),
        "v": F.col("sz").cast(exact),
        "n": F.lit(1).cast("long"),
    }
    bars = trade.select(*(column.alias(name) for name, column in columns.items())).coalesce(1)
    return partials(partials(bars, [DERIVED[0]]), DERIVED)


def folded(values: DataFrame) -> DataFrame:
    """The same parts of candles as our source makes of a batch, from the connector's rows."""
    return values.select("offset", "value").coalesce(1).mapInArrow(_fold, from_arrow_schema(SCHEMA))


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    entries: list[Any] = []
    for batch in batches:
        offsets, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        entries += [(str(offset + 1), value) for offset, value in zip(offsets, values, strict=True)]
    yield from trade_bars(entries).to_batches()


def connector_per_s(folder: Path, brokers: str, topic: str, trades: int, how: int) -> float:
    """From the end of the first batch to the end of the last."""
    jars = ",".join(map(str, _CONNECTOR.glob("*.jar")))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH)
        .config("spark.python.daemon.module", "artery.pipeline.daemon")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", BATCH)
        .load()
    )
    done: list[tuple[int, float]] = []

    def seen(frame: DataFrame, _batch: int) -> None:
        table = (parsed, folded)[how](frame).toArrow().to_pylist()
        done.append((sum(each["n"] for each in table if each["period_s"] == DERIVED[0].seconds), time.monotonic()))

    query = read.writeStream.foreachBatch(seen).option("checkpointLocation", f"{folder}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    assert sum(count for count, _ in done) == trades, done
    return (trades - done[0][0]) / (done[-1][1] - done[0][1])


async def measure(trades: int = TRADES) -> list[Row]:
    for folder in (JARS, _CONNECTOR):
        if not (folder / ".complete").exists():
            print(
                f"{folder.name}'s jars are not here (scripts/jars {folder.name}), so Kafka is left out", file=sys.stderr
            )
            return []
    with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
        server = KafkaServer(Path(name) / "kafka")
        try:
            url = server.running_url()
            ours, _, lake = await apart("pipeline_catch_up", trades, MARKETS, url)
            broker = [url.removeprefix("kafka://"), "md_stream.trade", trades]
            (with_json,) = await apart("pipeline_kafka", *broker, 0)
            (with_fold,) = await apart("pipeline_kafka", *broker, 1)
        finally:
            server.end()
    return [
        row("pipeline.kafka.from_json", ours, "trades/s", "", "Spark's connector", round(with_json)),
        row("pipeline.kafka.our_fold", ours, "trades/s", "", "Spark's connector, our fold", round(with_fold)),
        row("pipeline.kafka.lake_rows_per_s", lake, "rows/s"),
    ]


if __name__ == "__main__":
    given = sys.argv
    print(connector_per_s(Path(given[1]), given[2], given[3], int(given[4]), int(given[5])))
