"""How fast a log that is already there becomes candles, and rows of the lake; beside plain Spark on the same trades.

One after the other: the lake waits until the candles are made, as plain Spark makes candles and stores nothing. What
both at once come to is in `bench.pipeline_day`.

`python -m bench.pipeline_catch_up FOLDER TRADES MARKETS [BUS_URL]` prints trades/s into candles, in the second half of
the log, when all is warm, and into the lake.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from statistics import median
from typing import Any, TypeVar

from artery.app.heap import settle
from artery.bus.base import START, place
from artery.bus.open import open_bus
from artery.pipeline.running import Running
from artery.pipeline.session import Spark
from artery.settings import Settings
from artery.store.open import open_store
from bench.pipeline_market import PER_S, fill
from bench.rows import Row, row

TRADES, MORE = 2_000_000, 4_000_000
MARKETS, FEW, MANY = 20, 10, 1_000
ROUNDS = 3
FILES = 20
WAIT_S = 600.0
_NEVER_S = 86_400.0
Kind = TypeVar("Kind", bound=Running)


class InTurn(Running):
    """The pipeline, with a lake that waits until the candles are made: each has the machine to itself, and neither
    figure says what both take together."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.candles_are_made = asyncio.Event()

    async def _store_too(self, session: Any) -> None:
        await self.candles_are_made.wait()
        await super()._store_too(session)


class CatchUp:
    """One log in a folder of its own, and the pipeline that reads it from its beginning."""

    def __init__(self, settings: Settings, trades: int, markets: int, per_s: int = PER_S) -> None:
        self.settings = settings
        self.settings.folder.mkdir(parents=True)
        self._trades, self._markets, self._per_s = trades, markets, per_s
        self._head = START

    async def run(self) -> tuple[float, float, float]:
        """Trades a second into candles, in the second half too, and into the lake, one after the other."""
        async with self.started(InTurn) as running:
            candles, warm = await self.pace(running, lambda status: status["trade_position"])
            running.candles_are_made.set()
            lake, _ = await self.pace(running, lambda status: status["stored_position"])
            return candles, warm, lake

    @asynccontextmanager
    async def started(self, kind: type[Kind]) -> AsyncIterator[Kind]:
        """The pipeline, started on a log that is full already."""
        bus, store = open_bus(self.settings.bus_url()), open_store(self.settings.store_url())
        spark = Spark(self.settings)
        running: Kind | None = None
        try:
            self._head = await fill(bus, self._trades, self._markets, self._per_s)
            running = kind(self.settings, spark, bus, store, 1)
            await running.start()
            settle()  # as every service does
            yield running
        finally:
            if running is not None:
                await running.stop()
            spark.stop()
            await bus.close()
            await store.close()

    async def pace(self, running: Running, position: Callable[[dict[str, Any]], str]) -> tuple[float, float]:
        """From the end of the first batch, in which Java and the workers get warm, to the end of the last; and from the
        end of the batch in which half of the log was reached."""
        first: tuple[int, float] | None = None
        half: tuple[int, float] | None = None
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            await running.check()
            reached, now = position(await running.status()), time.monotonic()
            # A share of the log, because not every log counts its entries.
            at = round(place(reached)[-1] / place(self._head)[-1] * self._trades)
            if first is None and at:
                first = at, now
            if half is None and at >= self._trades // 2:
                half = at, now
            if reached == self._head and first is not None and half is not None:
                whole, later = ((at - was) / max(now - then, 0.001) for was, then in (first, half))
                return whole, later
            await asyncio.sleep(0.01)
        raise SystemExit("the pipeline did not catch up in time")


async def apart(module: str, *values: int | str) -> list[float]:
    """The figures that this module prints, with a folder and a Spark of its own: a process has but one Spark."""
    with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
        command = [sys.executable, "-m", f"bench.{module}", f"{name}/data", *map(str, values)]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SystemExit(f"bench.{module} broke: {done.stderr[-500:]}")
        return [float(figure) for figure in done.stdout.split()]


async def measure(trades: int = TRADES, more: int = MORE) -> list[Row]:
    """Candles and lake of a long log, plain Spark beside it, and what many markets cost."""
    candles, _, lake = await apart("pipeline_catch_up", trades, MARKETS)
    (plain,) = await apart("pipeline_plain", trades, MARKETS, FILES)
    paces: dict[int, list[float]] = {FEW: [], MANY: []}
    for markets in (FEW, MANY) * ROUNDS:
        paces[markets].append((await apart("pipeline_catch_up", more, markets))[1])
    few, many = map(median, paces.values())
    return [
        row("pipeline.fold_per_s", candles, "trades/s", ">= 80000"),
        row("pipeline.fold.plain_spark", candles, "trades/s", ">= 2", "plain Spark", round(plain)),
        row("pipeline.lake_rows_per_s", lake, "rows/s", ">= 40000"),
        row("pipeline.fold.markets", few / many, "times", "<= 1.2"),
    ]


async def _main(folder: str, trades: str, markets: str, bus_url: str = "") -> tuple[float, ...]:
    settings = Settings().with_(data={"dir": folder}, pipeline={"slow_store_s": _NEVER_S}, bus={"url": bus_url})
    return await CatchUp(settings, int(trades), int(markets)).run()


if __name__ == "__main__":
    print(*asyncio.run(_main(*sys.argv[1:])))
