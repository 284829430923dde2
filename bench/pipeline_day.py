"""A day of a market in one catch-up, candles and lake at once as a user runs them: how fast, and in how much memory.

`python -m bench.pipeline_day FOLDER TRADES MARKETS` prints trades/s, from the end of the first batch of both to the
time when the last trade is in a candle and in the lake, and the MiB that the pipeline, Java and its workers then hold.
"""

import asyncio
import sys
from contextlib import suppress
from typing import Any

import psutil

from artery.bus.base import place
from artery.pipeline.running import Running
from artery.settings import Settings
from bench.pipeline_catch_up import MARKETS, MORE, CatchUp, apart
from bench.rows import Row, row

PER_S = MORE // 86_400
"""Trades a second of market time, so that the whole log lasts a day."""


def memory_mib() -> float:
    """Proportional set size of this process and all that it has started."""
    top, total = psutil.Process(), 0
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total / 2**20


def _last(status: dict[str, Any]) -> str:
    """How far both have come."""
    return min(str(status["trade_position"]), str(status["stored_position"]), key=place)


async def _main(folder: str, trades: str, markets: str) -> tuple[float, float]:
    catch_up = CatchUp(Settings().with_(data={"dir": folder}), int(trades), int(markets), PER_S)
    async with catch_up.started(Running) as running:
        pace, _ = await catch_up.pace(running, _last)
        return pace, memory_mib()


async def measure(trades: int = MORE) -> list[Row]:
    """The state is bounded if a whole day leaves no more behind than half of it."""
    _, half = await apart("pipeline_day", trades // 2, MARKETS)
    pace, whole = await apart("pipeline_day", trades, MARKETS)
    return [
        row("pipeline.both_per_s", pace, "trades/s"),
        row("pipeline.memory_mib", whole, "MiB", "<= 1.2", "after half a day", round(half)),
    ]


if __name__ == "__main__":
    print(*asyncio.run(_main(*sys.argv[1:])))
