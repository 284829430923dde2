"""How long a start takes until candles move, and what the default market costs."""

import asyncio
import tempfile
import time
from pathlib import Path

from artery.client import Artery, Gap
from bench.rows import Row, row
from bench.running import Running, opened, up

CORES_OVER_S = 300.0
STEADY_S = 60.0


async def first_candle_s(running: Running) -> float:
    """Seconds from the start of the process to the first live candle at a WebSocket client."""
    await running.until_open()
    now_ms = time.time() * 1_000
    async with Artery(running.url, running.key) as artery:
        async for event in artery.stream("sim:BTC", types=["CANDLE:1m"]):
            if not isinstance(event, Gap) and event.event_ts >= now_ms - 5_000:
                return time.monotonic() - running.started
    raise AssertionError("a stream never ends")


async def measure() -> list[Row]:
    """Start twice (the first warms the caches), then watch the second for five minutes."""
    times = []
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
            with up(Path(name)) as running:
                times.append(await asyncio.wait_for(first_candle_s(running), 180))
    async with opened() as running:
        await asyncio.wait_for(first_candle_s(running), 180)
        await asyncio.sleep(STEADY_S)
        before, start = running.cpu_s(), time.monotonic()
        await asyncio.sleep(CORES_OVER_S)
        cores = (running.cpu_s() - before) / (time.monotonic() - start)
        memory = running.memory_mib()
    return [
        row("start.first_candle_s", times[-1], "s", "<= 30"),
        row("start.memory_mib", memory, "MiB", "<= 2048"),
        row("start.cores", cores, "cores", "<= 1.2"),
    ]
