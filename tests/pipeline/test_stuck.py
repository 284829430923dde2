"""Queries that hang: noticed when there is something for them to do, and not before a full disk was waited for."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from artery.bus.open import open_bus
from artery.errors import Unavailable
from artery.model import codec
from artery.pipeline import merges
from artery.pipeline import running as module
from artery.pipeline.progress import LOOK_AFTER_S, Patience
from artery.pipeline.running import STORE_STUCK_S, STUCK_S, Running
from artery.pipeline.storage import TRY_FOR_S
from artery.settings import Settings
from tests.pipeline.conftest import House
from tests.pipeline.test_running import BASE, MINUTE, folded, market, pipeline, some, until


@pytest.fixture
def settings(spark: House, tmp_path: Path) -> Iterator[Settings]:
    made = spark.settings.with_(
        bus={"url": f"sqlite:///{tmp_path}/bus.db"},
        store={"url": f"sqlite:///{tmp_path}/store.db"},
        pipeline={"trigger_ms": 100, "store_s": 0.2, "slow_store_s": 0.0, "slow_candle_s": 0.0},
    )
    yield made
    for query in spark.session.streams.active:
        query.stop()


def later(running: Running, wait_s: float) -> None:
    """Let so much time pass."""
    running._monotonic = lambda: time.monotonic() + wait_s


async def is_storing(running: Running) -> bool:
    return running.batches()[1] >= 0


@pytest.mark.parametrize("what", ["a merge that hangs", "upkeep that hangs"])
async def test_a_store_query_that_hangs_is_noticed(
    spark: House, settings: Settings, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    bus, start, woken = open_bus(settings.bus_url()), BASE + 60 * MINUTE, threading.Event()
    merge = merges.insert_new

    def hangs(*words: Any) -> None:
        woken.wait(60.0)
        merge(*words)

    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        first = some(1, 5, start, coin="HANG")
        await market(bus, first, start)
        await until(lambda: is_storing(running), running)
        assert running._storage is not None
        between = running._storage.between
        if what == "a merge that hangs":
            monkeypatch.setattr(merges, "insert_new", hangs)
        else:
            between.acquire()
        try:
            more = some(6, 5, start, coin="HANG")
            await market(bus, more, start)
            await until(folded(bus, first + more, start), running)
            later(running, TRY_FOR_S)
            await running.check()
            later(running, TRY_FOR_S + STORE_STUCK_S + 1.0)
            with pytest.raises(Unavailable, match="nothing was stored"):
                await running.check()
        finally:
            woken.set()
            if what == "upkeep that hangs":
                between.release()
    await bus.close()


async def test_a_lake_that_has_everything_is_left_in_peace_however_long_nothing_comes(
    spark: House, settings: Settings
) -> None:
    bus, start = open_bus(settings.bus_url()), BASE + 61 * MINUTE
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await market(bus, some(1, 5, start, coin="PEACE"), start)

        async def is_stored() -> bool:
            return await is_storing(running) and not await running._in_thread(running._is_unstored)

        await until(is_stored, running)
        later(running, 10 * STORE_STUCK_S)
        await running.check()
    await bus.close()


async def test_the_first_trade_after_a_long_quiet_finds_the_pipeline_well(spark: House, settings: Settings) -> None:
    """Candles and lake have their time from when there was something to do, not from when they last did something."""
    bus, start = open_bus(settings.bus_url()), BASE + 62 * MINUTE
    slow = settings.with_(pipeline={"trigger_ms": 2_000})
    async with pipeline(spark, slow, bus, epoch=1, killed=False) as running:
        first = some(1, 5, start, coin="QUIET")
        await market(bus, first, start)

        async def is_stored() -> bool:
            return await is_storing(running) and not await running._in_thread(running._is_unstored)

        await until(is_stored, running)
        later(running, 10 * STORE_STUCK_S)
        await running.check()
        more = some(6, 1, start, coin="QUIET")
        await bus.append("trade", [codec.encode(each) for each in more])
        await until(folded(bus, first + more, start), running)
        await until(is_stored, running)
    await bus.close()


async def test_a_lake_that_is_no_longer_kept_is_noticed(spark: House, settings: Settings) -> None:
    bus, start = open_bus(settings.bus_url()), BASE + 63 * MINUTE
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await market(bus, some(1, 5, start, coin="UNKEPT"), start)
        await until(lambda: is_storing(running), running)

        async def breaks() -> None:
            raise RuntimeError("out of order")

        assert running._keeping is not None
        running._keeping.cancel()
        running._keeping = asyncio.create_task(breaks())
        await asyncio.wait({running._keeping})
        with pytest.raises(Unavailable, match="no longer kept: out of order"):
            await running.check()
    await bus.close()


async def test_a_java_that_no_longer_answers_is_noticed(
    spark: House, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver would hold the lock for ever, and nobody else could make candles."""
    bus, woken = open_bus(settings.bus_url()), threading.Event()
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        await running.check()
        monkeypatch.setattr(module, "ANSWER_S", 0.2)
        running._thread.submit(woken.wait, 60.0)  # as a call to a Java that is stopped
        try:
            with pytest.raises(Unavailable, match="Java has not answered"):
                await running.check()
        finally:
            woken.set()
    await bus.close()


class Work:
    """Whether there is something to do."""

    def __init__(self) -> None:
        self.is_there = False

    def is_due(self) -> bool:
        return self.is_there


def test_a_query_hangs_from_when_there_was_something_to_do() -> None:
    patience, work = Patience(), Work()
    assert patience.waited_s(0.0, 3, work.is_due) == 0.0
    assert patience.waited_s(STUCK_S * 2, 3, work.is_due) == 0.0
    work.is_there = True
    assert patience.waited_s(STUCK_S * 2 + 1, 3, work.is_due) == 0.0
    assert patience.waited_s(STUCK_S * 4, 3, work.is_due) == STUCK_S * 2 - 1
    assert patience.waited_s(STUCK_S * 4 + 1, 4, work.is_due) == 0.0, "a batch was done"
    assert patience.waited_s(STUCK_S * 4 + 1 + LOOK_AFTER_S, 4, work.is_due) == 0.0
    assert patience.waited_s(STUCK_S * 6 + 1 + LOOK_AFTER_S, 4, work.is_due) == STUCK_S * 2
