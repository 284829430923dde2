"""After `artery bus copy` the pipeline goes on in the new log: every trade counts once, in candles and in the lake."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from artery.app.bus_carry import carrier
from artery.app.bus_copy import copy
from artery.bus.base import Bus
from artery.bus.log_id import log_id
from artery.bus.open import open_bus
from artery.lake.reads import Lake
from artery.model.events import Trade
from artery.pipeline.storage import GROUPS
from artery.settings import Settings
from tests.pipeline.conftest import House
from tests.pipeline.test_bars import trade
from tests.pipeline.test_running import BASE, MINUTE, folded, market, pipeline, settings, until
from tests.servers import RedisServer

__all__ = ["settings"]
COIN = "MOVE"
START = BASE + 40 * MINUTE


@pytest.fixture
def new_url(tmp_path: Path) -> Iterator[str]:
    server = RedisServer(tmp_path / "redis")
    yield server.new_url()
    server.end()


def some(first: int, count: int, from_ms: int) -> list[Trade]:
    numbers = range(first, first + count)
    return [trade(n, from_ms + n * 100, px=f"{100 + n % 17}.{n % 10}", sz="0.1", coin=COIN) for n in numbers]


def stored(lake: Lake, trades: list[Trade]) -> Callable[[], Any]:
    async def is_so() -> bool:
        return tids(lake) == [one.tid for one in trades]

    return is_so


def tids(lake: Lake) -> list[str]:
    rows = lake.trades(f"SIM:{COIN}", START, START + 3_600_000).to_pylist()
    return sorted((row["tid"] for row in rows), key=int)


async def acked(bus: Bus) -> bool:
    states = [await bus.group(stream, group) for stream, group in GROUPS.items() if stream in ("trade", "candle")]
    return all(state.lag == 0 for state in states)


async def test_a_moved_log_is_read_on_from_the_same_place(spark: House, settings: Settings, new_url: str) -> None:
    old, new = open_bus(settings.bus_url()), open_bus(new_url)
    trades = some(1, 40, START)
    async with pipeline(spark, settings, old, epoch=1, killed=False) as running:
        await market(old, trades, START + 30_000)
        await until(folded(old, trades, START + 30_000), running)
        await until(stored(spark.lake, trades), running)
        await until(lambda: acked(old), running)
    await old.trim("trade", keep=7, required=[GROUPS["trade"]])  # what the hour's candle was made of is not there now
    done = await copy(old, new, carry=carrier(settings))
    assert done.carried
    assert await log_id(new) > await log_id(old) > 0
    assert next(row.copied for row in done.streams if row.stream == "trade") == 7

    there = settings.with_(bus={"url": new_url})
    async with pipeline(spark, there, new, epoch=2, killed=False) as running:
        fresh = some(41, 30, START + MINUTE)
        await market(new, fresh, START + 2 * MINUTE)
        trades += fresh
        await until(folded(new, trades, START + 2 * MINUTE), running)
        await until(stored(spark.lake, trades), running)
    assert Lake(there.folder, await log_id(new)).positions()["trade"] == await new.head("trade")
    assert set(Lake(there.folder, await log_id(old)).positions().values()) == {"0"}
    await old.close()
    await new.close()


async def test_a_log_that_was_copied_without_the_pipelines_store_is_read_anew(
    spark: House, settings: Settings, new_url: str, tmp_path: Path
) -> None:
    old, new = open_bus(settings.bus_url()), open_bus(new_url)
    trades = some(101, 20, START + 10 * MINUTE)
    async with pipeline(spark, settings, old, epoch=1, killed=False) as running:
        await market(old, trades, START + 10 * MINUTE)
        await until(folded(old, trades, START + 10 * MINUTE), running)
    elsewhere = settings.with_(data={"dir": str(tmp_path / "other")}, store={"url": f"sqlite:///{tmp_path}/other.db"})
    assert not (await copy(old, new, carry=carrier(elsewhere))).carried
    async with pipeline(spark, settings.with_(bus={"url": new_url}), new, epoch=2, killed=False) as running:
        fresh = some(121, 20, START + 11 * MINUTE)
        await market(new, fresh, START + 12 * MINUTE)
        trades += fresh
        await until(folded(new, trades, START + 12 * MINUTE), running)
        kept = [one.tid for one in trades]

        async def once() -> bool:
            return [tid for tid in tids(spark.lake) if int(tid) > 100] == kept

        await until(once, running)
    await old.close()
    await new.close()
