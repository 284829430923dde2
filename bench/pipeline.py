"""The pipeline: how soon a trade is in a candle, how fast a log becomes candles and lake, what it costs at rest."""

from bench import pipeline_catch_up, pipeline_day, pipeline_kafka, pipeline_live
from bench.rows import Row


async def measure() -> list[Row]:
    parts = (pipeline_catch_up, pipeline_day, pipeline_kafka, pipeline_live)
    return [row for part in parts for row in await part.measure()]
