"""How far candles are behind: the trades that none holds yet, counted on every log, and the clock that they follow."""

import asyncio
from pathlib import Path

import pytest

from artery.bus.open import open_bus
from artery.pipeline.candles import ENDED_MS, Batch, CandleBook
from tests.kafka import BROKER
from tests.pipeline.conftest import House
from tests.pipeline.test_running import BASE, MINUTE, folded, market, pipeline, some, until
from tests.servers import RedisServer


@pytest.mark.parametrize("kind", ["redis", "kafka"])
async def test_the_status_says_how_many_trades_no_candle_holds_yet(spark: House, tmp_path: Path, kind: str) -> None:
    server = RedisServer() if kind == "redis" else None
    start, coin = BASE + 80 * MINUTE, f"LAG{kind.upper()}"
    settings = spark.settings.with_(
        bus={"url": server.new_url() if server else BROKER.running_url(), "base": BROKER.new_base()},
        store={"url": f"sqlite:///{tmp_path}/store.db"},
        pipeline={"trigger_ms": 100, "store_s": 0.5, "slow_store_s": 0.0, "slow_candle_s": 0.0},
    )
    bus = open_bus(settings.bus_url(), settings.bus.base)
    async with pipeline(spark, settings, bus, epoch=1, killed=False) as running:
        first = some(1, 3, start, coin)
        await market(bus, first, start)
        await until(folded(bus, first, start), running)
        await asyncio.to_thread(running._queries["fast"].stop)
        assert (await running.status())["lag_entries"] == 0
        await market(bus, some(4, 40, start, coin), start)
        lag = (await running.status())["lag_entries"]
        assert lag == 40 if server else 40 <= lag <= 42  # a transaction of Kafka ends with a marker
    await bus.close()
    if server:
        server.end()


def test_a_provider_that_has_ended_does_not_hold_back_the_clock_of_the_others() -> None:
    book = CandleBook(1)
    assert book.clock_ms() == 0
    book.apply(Batch(clocks={"ended": BASE, "late": BASE - 3_000, "lives": BASE}), 0)
    assert book.clock_ms() == BASE - 3_000
    book.apply(Batch(clocks={"late": BASE + ENDED_MS, "lives": BASE + ENDED_MS}), 0)
    assert book.clock_ms() == BASE
    book.apply(Batch(clocks={"late": BASE + ENDED_MS, "lives": BASE + ENDED_MS + 1_000}), 0)
    assert book.clock_ms() == BASE + ENDED_MS
