"""How old a trade is when a candle holds it, with storage running; and what the default market costs."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import psutil

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.model.codec import encode
from artery.model.events import Clock
from artery.settings import Settings
from bench.live import percentile
from bench.pipeline_market import PER_S, trade
from bench.rows import Row, row
from bench.running import Running, opened

EVERY_S = 0.05
WARM_S, MEASURE_S = 40.0, 60.0
STEADY_S, CORES_OVER_S = 60.0, 300.0
MARKETS = 6
START_S = 120.0


class Ages:
    """When each trade was on the bus, and how much later a candle that holds it was."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[float] = []
        self.held: dict[str, int] = {}
        self.ages_ms: list[float] = []

    def appended(self, position: str, now: float) -> None:
        self.numbers.append(int(position))
        self.times.append(now)

    def candle(self, fields: dict[str, str], now: float, *, recording: bool) -> None:
        """Its market's trades up to `upTo` are in it; those after the candle before it are new in it."""
        up_to, before = int(fields.get("upTo", "0")), self.held.get(fields["coin"], 0)
        self.held[fields["coin"]] = max(up_to, before)
        if recording and before:
            first, last = bisect_right(self.numbers, before), bisect_right(self.numbers, up_to)
            self.ages_ms += [(now - at) * 1_000 for at in self.times[first : last + 1]]


async def write(bus: Bus, ages: Ages) -> None:
    """Trades as a feed writes them, at their pace, with the clock once a second."""
    number, said = 0, 0.0
    began = time.monotonic()
    while True:
        now, wall_ms = time.monotonic(), int(time.time() * 1_000)
        due = int((now - began) * PER_S)
        if due > number:
            ids = await bus.append("trade", [trade(each, MARKETS, wall_ms) for each in range(number, due)])
            ages.appended(ids[-1], time.monotonic())
            number = due
            if now - said >= 1.0:
                said = now
                clock = Clock(provider="sim", epoch=1, ts=wall_ms - 1_000, up_to=ids[-1])
                await bus.append("feed", [encode(clock)])
        await asyncio.sleep(EVERY_S)


async def watch(bus: Bus, ages: Ages, recording: asyncio.Event, began: asyncio.Event) -> None:
    async for entries in bus.follow("candle"):
        now = time.monotonic()
        for entry in entries:
            if entry.fields["interval"] == "1m":
                ages.candle(entry.fields, now, recording=recording.is_set())
        began.set()


@contextlib.contextmanager
def pipeline() -> Iterator[Settings]:
    """The pipeline as a process of its own, with the lake, on a log of its own."""
    with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
        settings = Settings().with_(data={"dir": name})
        settings.folder.mkdir(parents=True)
        own = {key: value for key, value in os.environ.items() if not key.startswith("ART_")}
        with (Path(name) / "console.log").open("ab") as console:
            command = [sys.executable, "-m", "artery", "run", "pipeline"]
            process = subprocess.Popen(command, env=own | settings.environment(), stdout=console, stderr=console)
        try:
            yield settings
        finally:
            process.terminate()
            process.wait(30)


async def ages_ms() -> list[float]:
    """Trades at their pace for a minute, once all is warm."""
    with pipeline() as settings:
        bus, ages, recording, began = open_bus(settings.bus_url()), Ages(), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(write(bus, ages)), asyncio.create_task(watch(bus, ages, recording, began))]
        try:
            await asyncio.wait_for(began.wait(), START_S)
            await asyncio.sleep(WARM_S)
            recording.set()
            await asyncio.sleep(MEASURE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await bus.close()
        return ages.ages_ms


def pipeline_of(running: Running) -> psutil.Process:
    """The pipeline's process; without one there is nothing to measure."""
    for process in running.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.cmdline()[-2:] == ["run", "pipeline"]:
                return process
    raise SystemExit("no process of a pipeline runs, so nothing can be said of what it takes")


def spark_s(pipeline: psutil.Process) -> float:
    """Processor time so far of the pipeline's process with Java and its workers."""
    total = sum(pipeline.cpu_times()[:4])
    for one in pipeline.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(one.cpu_times()[:4])
    return float(total)


async def idle_cores(steady_s: float = STEADY_S, over_s: float = CORES_OVER_S) -> float:
    """What all of Spark takes on the default market."""
    async with opened() as running:
        await asyncio.sleep(steady_s)
        pipeline = pipeline_of(running)
        before, began = spark_s(pipeline), time.monotonic()
        await asyncio.sleep(over_s)
        took = spark_s(pipeline) - before
        if took <= 0.0 or pipeline != pipeline_of(running):
            raise SystemExit("the pipeline was started anew while it was measured")
        return took / (time.monotonic() - began)


async def measure() -> list[Row]:
    found = await ages_ms()
    if not found:
        raise SystemExit("no candle was seen")
    return [
        row("pipeline.candle_p50_ms", percentile(found, 0.5), "ms"),
        row("pipeline.candle_p99_ms", percentile(found, 0.99), "ms", "< 1000"),
        row("pipeline.idle_cores", await idle_cores(), "cores", "<= 1.0"),
    ]
