"""The same package on a cluster, all of it real: a Spark master with two workers, Kafka as the log, PostgreSQL as the
catalog. A worker is killed in the midst of a batch, then the driver; every trade is counted once."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.lake.open import open_lake
from artery.model import codec
from artery.model.events import Clock, Trade
from artery.settings import Settings
from artery.store.open import open_store
from tests.cluster import Cluster
from tests.kafka import BROKER
from tests.pipeline.test_running import BASE, CALLED, MINUTE, is_fold, newest, some
from tests.postgres import PostgresServer

DEADLINE_S = 180.0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Cluster]]:
    folder = tmp_path_factory.mktemp("cluster")
    postgres = PostgresServer(None)
    with ThreadPoolExecutor(3) as starting:
        made = starting.submit(Cluster, folder / "cluster")
        catalog, log = starting.submit(postgres.start), starting.submit(BROKER.running_url)
        cluster = made.result()
    try:
        settings = Settings().with_(
            data={"dir": str(folder / "shared")},
            bus={"url": log.result(), "base": BROKER.new_base()},
            lake={"catalog_url": catalog.result().url},
            pipeline={"store_s": 1.0, "slow_store_s": 0.0, "slow_candle_s": 0.0, "executor_mb": 448},
        )
        settings.folder.mkdir(parents=True)
        cluster.wait()
        yield settings, cluster
    finally:
        cluster.end()
        postgres.end()


@asynccontextmanager
async def driver(settings: Settings, master: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`artery run pipeline --master …`, killed in the end with no word, as a machine that goes away."""
    command = (sys.executable, "-m", "artery", "run", "pipeline", "--master", master)
    process = await asyncio.create_subprocess_exec(*command, env=os.environ | settings.environment())
    try:
        yield process
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.to_thread(psutil.wait_procs, family, 60)


async def until(process: asyncio.subprocess.Process, what: str, is_so: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await is_so():
        assert process.returncode is None, f"the driver has ended before {what}"
        assert time.monotonic() < deadline, f"it took too long until {what}"
        await asyncio.sleep(0.2)


async def market(bus: Bus, trades: list[Trade], clock_ms: int) -> None:
    await bus.append("trade", [codec.encode(one) for one in trades])
    clock = Clock(provider="sim", epoch=1, ts=clock_ms, up_to=await bus.head("trade"))
    await bus.append("feed", [codec.encode(clock)])


async def test_a_killed_worker_and_a_killed_driver_cost_no_trade_and_repeat_none(
    place: tuple[Settings, Cluster],
) -> None:
    settings, cluster = place
    bus, store = open_bus(settings.bus_url(), settings.bus.base), open_store(settings.store_url())
    lake = open_lake(settings)
    trades: list[Trade] = []

    async def more(minute: int) -> None:
        fresh = some(len(trades) + 1, 40, BASE + minute * MINUTE)
        trades.extend(fresh)
        await market(bus, fresh, BASE + (minute + 1) * MINUTE)

    def folded(minutes: int) -> Callable[[], Awaitable[bool]]:
        async def is_so() -> bool:
            await market(bus, [], BASE + minutes * MINUTE)  # the clock ticks on, as it always does
            return is_fold(await newest(bus), trades, BASE + minutes * MINUTE)

        return is_so

    async def waits() -> bool:
        """A batch is under way and cannot go on: trades are there, and the pipeline says that it has not made them."""
        status = msgspec.json.decode(await store.get("artery:pipeline") or b"{}")
        return bool(status.get("lag_entries")) and status["updated_ms"] > frozen_ms + 2_000

    async def stored() -> bool:
        found = await asyncio.to_thread(lake.trades, f"SIM:{CALLED}", 0, BASE * 2)
        return bool(found.num_rows >= len(trades))

    async with driver(settings, cluster.master) as process:
        await more(0)
        await until(process, "the first candles", folded(1))
        for worker in (0, 1):
            cluster.freeze(worker)
        frozen_ms = time.time() * 1_000
        await more(1)
        await until(process, "a batch is under way", waits)
        cluster.kill(0)
        cluster.freeze(1, on=False)
        await until(process, "one worker has made the candles", folded(2))
    await more(2)  # while nobody runs
    async with driver(settings, cluster.master) as process:
        await until(process, "the next driver's candles", folded(3))
        await until(process, "every trade is stored", stored)
    assert sorted(lake.scan("trades")["tid"].to_pylist(), key=int) == [one.tid for one in trades]
    assert _secrets_of(settings) == []
    lake.close()
    await bus.close()
    await store.close()


def _secrets_of(settings: Settings) -> list[Path]:
    """Files of the data folder's logs in which the catalog's password stands."""
    secret = settings.lake.catalog_url.split(":")[2].partition("@")[0]
    files = [path for path in (settings.folder / "logs").rglob("*") if path.is_file()]
    return [path for path in files if secret in path.read_text(errors="replace")]
