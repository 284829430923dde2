"""The engine as a service: one leads, another stands by, and nobody computes where it is off."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from artery.engine.service import LOCK, run_engine
from artery.live.lock import StoreLock
from artery.settings import Settings
from tests.engine.made import MINUTE, House, candle, wanted

WAIT_S = 30.0
QUICK = Settings().with_(engine={"pace_ms": 10, "save_s": 0.0})


async def until(what: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not await what():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)


def started(home: House, settings: Settings = QUICK) -> "asyncio.Task[None]":
    running = run_engine(settings, home.bus, home.store, StoreLock(home.store), home.lake, pause_s=(0.01, 0.02))
    return asyncio.create_task(running)


async def stopped(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


async def has(home: House, minute: int) -> bool:
    raw = await home.store.get(f"artery:indicator:sim:BTC:{MINUTE}")
    return raw is not None and (await home.record())["closed"]["startTs"] == candle(minute).start_ts


async def test_another_takes_over_where_the_first_one_stopped(home: House) -> None:
    first, second = started(home), started(home)
    try:
        await home.append(*[candle(m) for m in range(40)])
        await until(lambda: has(home, 39))
        await stopped(first)
        await home.append(candle(40))
        await until(lambda: has(home, 40))
        assert await home.values() == wanted(candle(m) for m in range(41))
    finally:
        await stopped(first)
        await stopped(second)


async def test_a_process_in_which_it_is_off_leaves_the_lock_to_others(home: House) -> None:
    off = started(home, QUICK.with_(engine={"workers": False}))
    on = started(home)
    try:
        await home.append(candle(0))
        await until(lambda: has(home, 0))
        assert await home.store.get(LOCK) is not None
        assert not off.done()
    finally:
        await stopped(off)
        await stopped(on)
