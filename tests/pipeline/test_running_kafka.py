"""The same queries on Kafka: candles and lake are those of the log, also after a death."""

from pathlib import Path

from artery.bus.open import open_bus
from artery.model.events import Trade
from tests.kafka import BROKER
from tests.pipeline.conftest import House
from tests.pipeline.test_running import BASE, MINUTE, folded, market, pipeline, some, stored, until

CALLED = "KAFKA"


async def test_the_same_queries_on_kafka_count_every_trade_once_also_after_a_death(
    spark: House, tmp_path: Path
) -> None:
    settings = spark.settings.with_(
        bus={"url": BROKER.running_url(), "base": BROKER.new_base()},
        store={"url": f"sqlite:///{tmp_path}/store.db"},
        pipeline={"trigger_ms": 100, "store_s": 0.5, "slow_store_s": 0.0, "slow_candle_s": 0.0},
    )
    bus = open_bus(settings.bus_url(), settings.bus.base)
    trades: list[Trade] = []
    for life, killed in enumerate((True, False)):
        clock_ms = BASE + (life + 1) * MINUTE
        async with pipeline(spark, settings, bus, epoch=life + 1, killed=killed) as running:
            fresh = some(len(trades) + 1, 60, BASE + life * MINUTE, CALLED)
            trades += fresh
            await market(bus, fresh, clock_ms)
            await until(folded(bus, trades, clock_ms), running)
            if life == 1:
                await until(stored(spark, bus, trades, CALLED), running)
    await bus.close()
