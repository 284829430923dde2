"""The pipeline as it runs: real queries over a real bus, killed and started again, lose and repeat nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.errors import Unavailable
from artery.model import codec, fold
from artery.model.events import Candle, Clock, Trade
from artery.model.periods import DERIVED, Period
from artery.pipeline.running import Running
from artery.settings import Settings
from artery.store.open import open_store
from artery.wire import history
from tests.pipeline.conftest import House
from tests.pipeline.test_bars import trade

DEADLINE_S = 120.0
MINUTE = 60_000
BASE = 1_730_073_600_000  # the beginning of a day
CALLED = "RUN"


class SharedSpark:
    """The tests' one session, where the service would start its own."""

    pid = 0

    def __init__(self, session: Any) -> None:
        self._session = session
        self.is_alive = True

    def session(self) -> Any:
        return self._session

    def alive(self) -> bool:
        return self.is_alive

    def let_go(self) -> None:
        """Its helpers are every test's."""


@pytest.fixture
def settings(spark: House, tmp_path: Path) -> Iterator[Settings]:
    made = spark.settings.with_(
        bus={"url": f"sqlite:///{tmp_path}/bus.db"},
        store={"url": f"sqlite:///{tmp_path}/store.db"},
        pipeline={"trigger_ms": 100, "store_s": 0.5, "slow_store_s": 0.0, "slow_candle_s": 0.0},
    )
    yield made
    for query in spark.session.streams.active:
        query.stop()


@asynccontextmanager
async def pipeline(spark: House, settings: Settings, bus: Bus, epoch: int, *, killed: bool) -> AsyncIterator[Running]:
    """One life of the pipeline; a killed one saves nothing at its end."""
    store = open_store(settings.store_url())
    running = Running(settings, SharedSpark(spark.session), bus, store, epoch)  # type: ignore[arg-type]
    try:
        await running.start()
        yield running
    finally:
        if killed:
            running._fast = None
        await running.stop()
        for query in spark.session.streams.active:
            await asyncio.to_thread(query.stop)
        await store.close()


async def until(is_so: Callable[[], Any], running: Running) -> None:
    """Wait for what the pipeline is to do, and look after it meanwhile."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        if await is_so():
            return
        await running.check()
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)


def has_done_a_batch(running: Running) -> Callable[[], Any]:
    async def is_so() -> bool:
        return running.batches()[0] >= 0

    return is_so


async def newest(bus: Bus) -> dict[tuple[str, str, int, int], Candle]:
    """The newest version of each candle on the bus; on the way, what may never happen is looked for."""
    found: dict[tuple[str, str, int, int], Candle] = {}
    for entry in await bus.read("candle", limit=100_000):
        candle = codec.decode(entry.fields)
        assert isinstance(candle, Candle)
        old = found.get(candle.key)
        assert old is None or candle.version > old.version
        assert old is None or not old.closed or candle.rev > old.rev
        found[candle.key] = candle
    return found


async def market(bus: Bus, trades: list[Trade], clock_ms: int) -> None:
    ids = await bus.append("trade", [codec.encode(one) for one in trades])
    up_to = ids[-1] if ids else await bus.head("trade")
    await bus.append("feed", [codec.encode(Clock(provider="sim", epoch=1, ts=clock_ms, up_to=up_to))])


def some(first: int, count: int, from_ms: int, coin: str = CALLED) -> list[Trade]:
    return [
        trade(seq, from_ms + (seq * 7_919) % 50_000, px=f"{100 + seq % 17}.{seq % 10}", sz="0.1", coin=coin)
        for seq in range(first, first + count)
    ]


def is_fold(candles: dict[tuple[str, str, int, int], Candle], trades: list[Trade], clock_ms: int) -> bool:
    """Whether there is the exact fold of every window, closed where the clock has passed it."""
    for period in DERIVED:
        for (provider, coin, start), bar in fold.bars(trades, period).items():
            found = candles.get((provider, coin, period.seconds, start))
            if found is None or found.closed != (start + period.ms <= clock_ms):
                return False
            if (found.o, found.h, found.l, found.c, found.v, found.n) != (bar.o, bar.h, bar.l, bar.c, bar.v, bar.n):
                return False
    return True


async def test_lives_and_deaths_of_the_pipeline_count_every_trade_once(spark: House, settings: Settings) -> None:
    bus = open_bus(settings.bus_url())
    trades: list[Trade] = []
    for life, killed in enumerate((True, False, True)):
        clock_ms = BASE + (2 * life + 2) * MINUTE
        async with pipeline(spark, settings, bus, epoch=life + 1, killed=killed) as running:
            for minute in (2 * life, 2 * life + 1):
                fresh = some(len(trades) + 1, 40, BASE + minute * MINUTE)
                trades += fresh
                await market(bus, fresh, BASE + minute * MINUTE + 30_000)
            late = some(len(trades) + 1, 3, BASE)  # for a candle that may be closed already
            trades += late
            await market(bus, late, clock_ms)
            await until(folded(bus, trades, clock_ms), running)
            if life == 2:
                await until(stored(spark, bus, trades), running)
    found = spark.lake.scan("trades")
    mine = found.filter(pc.equal(found["ticker"], f"SIM:{CALLED}"))
    assert sorted(mine["tid"].to_pylist(), key=int) == [one.tid for one in trades]
    await bus.close()


def folded(bus: Bus, trades: list[Trade], clock_ms: int) -> Callable[[], Any]:
    """Whether the bus has every candle as it must be; the feed's clock ticks on meanwhile, as it always does."""

    async def is_so() -> bool:
        await market(bus, [], clock_ms)
        return is_fold(await newest(bus), trades, clock_ms)

    return is_so


def stored(spark: House, bus: Bus, trades: list[Trade], coin: str = CALLED) -> Callable[[], Any]:
    """Whether the lake holds every trade, and every candle as the bus has it."""

    async def is_so() -> bool:
        found = spark.lake.scan("ohlc").to_pylist()
        rows = {(row["period_s"], int(row["start"].timestamp() * 1_000)): row for row in found if coin in row["ticker"]}
        candles = await newest(bus)
        kept = spark.lake.trades(f"SIM:{coin}", BASE, BASE + 3_600_000).num_rows
        return kept == len(trades) and all(
            (row := rows.get(key[2:])) is not None
            and (row["close"], row["volume"], row["trades"], row["closed"], row["rev"])
            == (candle.c, candle.v, candle.n, candle.closed, candle.rev)
            for key, candle in candles.items()
        )

    return is_so


async def test_a_venues_candle_corrects_ours_on_the_bus_and_in_the_lake(spark: House, settings: Settings) -> None:
    bus = open_bus(settings.bus_url())
    start = BASE + 20 * MINUTE
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await market(bus, [trade(1, start + 5, coin="FIX")], start + MINUTE)
        key = ("sim", "FIX", 60, start)

        async def closed() -> bool:
            return key in (found := await newest(bus)) and found[key].closed

        await until(closed, running)
        price = Decimal(77)
        theirs = Candle(
            provider="sim",
            coin="FIX",
            period=Period(60),
            start_ts=start,
            o=price,
            h=price,
            l=price,
            c=price,
            v=Decimal(5),
            n=4,
            closed=True,
            event_ts=0,
        )
        page = history.page("own:repair", "sim", "FIX", Period(60), [theirs], number=1, last=True)
        await bus.append("history", [history.encode(page, event_ts=start)])

        async def corrected() -> bool:
            live = (await newest(bus))[key]
            rows = spark.lake.candles("SIM:FIX", 60, start, start + 1).to_pylist()
            return (live.c, live.rev) == (price, 1) and [(row["close"], row["rev"]) for row in rows] == [(price, 1)]

        await until(corrected, running)
        status = await running.status()
        assert (status["state"], status["lag_entries"], status["clock_ms"]) == ("running", 0, start + MINUTE)
    await bus.close()


async def test_a_query_that_has_died_is_noticed(spark: House, settings: Settings) -> None:
    bus = open_bus(settings.bus_url())
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await running.check()
        await asyncio.to_thread(running._queries["fast"].stop)
        with pytest.raises(Unavailable, match="the fast query has stopped"):
            await running.check()
    await bus.close()


class Late:
    """A query as Spark leaves it whose helper was not there in time."""

    isActive = False  # noqa: N815 (Spark's name)

    def exception(self) -> str:
        return "Python worker failed to connect back."


async def test_a_query_whose_helper_was_late_is_started_again_unless_it_has_made_candles(
    spark: House, settings: Settings
) -> None:
    bus = open_bus(settings.bus_url())
    start = BASE + 40 * MINUTE
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await asyncio.to_thread(running._queries["fast"].stop)
        running._queries["fast"] = Late()
        await running.check()
        trades = some(1, 5, start, coin="LATE")
        await market(bus, trades, start + MINUTE)
        await until(folded(bus, trades, start + MINUTE), running)
        await until(has_done_a_batch(running), running)  # its candles are out a moment before it is done
        running._queries["fast"] = Late()  # it has made candles, so this is not its start
        with pytest.raises(Unavailable, match="connect back"):
            await running.check()
    await bus.close()
