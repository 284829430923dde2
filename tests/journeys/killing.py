"""Killing parts of a whole Artery, and waiting until they are back."""

import asyncio
import os
import signal
import time

import msgspec
import psutil

from artery.client import Artery, Gap
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from bench.running import Running

MINUTE = Period.parse("1m")


class Killed(msgspec.Struct, frozen=True):
    """What was killed when, and the end of the minute in which everything was back."""

    pipeline: int
    serve_ms: int
    end_ms: int


def service(artery: Running, name: str) -> psutil.Process | None:
    """The process of a service under `artery up`."""
    for process in artery.processes():
        try:
            if process.cmdline()[-2:] == ["run", name]:
                return process
        except psutil.Error:
            continue
    return None


def kill(artery: Running, name: str) -> int:
    process = service(artery, name)
    assert process is not None, f"{name} is not running"
    os.kill(process.pid, signal.SIGKILL)
    return process.pid


async def first(artery: Running, kind: type, types: list[str], since_ms: int) -> None:
    """Wait for an event of this kind that is newer than `since_ms`."""
    async with Artery(artery.url, artery.key) as client:
        async for event in client.stream("SIM:BTC", types=types):
            if isinstance(event, kind) and not isinstance(event, Gap) and event.event_ts > since_ms:  # type: ignore[attr-defined]
                return


async def until_event(artery: Running, kind: type, types: list[str], since_ms: int) -> None:
    """As `first`, also while the gateway is away."""
    async with asyncio.timeout(150):
        while True:
            try:
                return await first(artery, kind, types, since_ms)
            except Exception:  # the gateway is not back yet
                await asyncio.sleep(0.2)


async def kill_both(artery: Running) -> Killed:
    """Kill the pipeline, then ingest with the gateway; each comes back."""
    await until_event(artery, Candle, ["CANDLE:1m"], now_ms() - MINUTE.ms)
    pipeline = kill(artery, "pipeline")
    await until_event(artery, Trade, ["TRADE"], now_ms())  # trades go on without candles
    await until_event(artery, Candle, ["CANDLE:1m"], now_ms())
    serve_ms = now_ms()
    kill(artery, "serve")
    await until_event(artery, Trade, ["TRADE"], now_ms())
    return Killed(pipeline, serve_ms, MINUTE.start(now_ms()) + MINUTE.ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
