"""The pipeline: how soon a trade is in a candle, how fast a log becomes candles and lake, what it costs at rest."""

from bench import pipeline_catch_up, pipeline_kafka, pipeline_live
from bench.rows import Row


async def measure() -> list[Row]:
    return await pipeline_catch_up.measure() + await pipeline_kafka.measure() + await pipeline_live.measure()
