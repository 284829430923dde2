"""What a trim has to lose is counted, written as marks before it is gone, and alarmed; on every bus alike."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from artery.bus.base import Bus, Trimmed
from artery.bus.losses import Losses
from artery.bus.open import open_bus
from artery.bus.trimmer import GROWTH, trim_stream
from artery.errors import PositionLost
from artery.model import codec
from artery.model.events import Mark
from tests.kafka import BROKER
from tests.servers import RedisServer

G = "cg_storage_trade"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made
    made.end()


@pytest.fixture(params=["sqlite", "redis", "kafka"])
async def bus(request: pytest.FixtureRequest, server: RedisServer, tmp_path: Path) -> AsyncIterator[Bus]:
    if request.param == "kafka":
        made = open_bus(BROKER.running_url(), BROKER.new_base())
    else:
        made = open_bus(f"sqlite:///{tmp_path}/bus.db" if request.param == "sqlite" else server.new_url())
    yield made
    await made.close()


def trade(number: int, coin: str = "BTC", **more: str) -> dict[str, str]:
    head = {"ver": "1", "t": "TRADE", "coin": coin, "ts": str(1_000 + number), "eventTs": str(5_000 + number)}
    return head | {"px": "1", "sz": "1", "side": "B"} | more


def ours(number: int, coin: str = "BTC") -> dict[str, str]:
    return trade(number, coin, provider="sim", epoch="7", seq=str(number), tid=str(number))


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"artery_bus_{name}_total", {"stream": "trade"}) or 0.0


async def marks(bus: Bus) -> list[Mark]:
    found = [codec.decode(entry.fields) for entry in await bus.read("feed")]
    return [event for event in found if isinstance(event, Mark)]


async def test_a_loss_is_counted_exactly_and_marked_for_each_market(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", [ours(n, "BTC" if n % 2 else "ETH") for n in range(30)], writer="sim", epoch=7)
    await bus.append("trade", [trade(n) for n in range(30, 60)])
    await bus.append("trade", [{"not": "an event"}])
    await bus.append("trade", [ours(n) for n in range(100, 440)], writer="sim", epoch=7)
    before = counted("lost")
    assert await trim_stream(bus, "trade", cap=100) == Trimmed(removed=1, lost=1)
    assert await trim_stream(bus, "trade", cap=90) == Trimmed(removed=40, lost=40)
    assert counted("lost") == before + 41
    assert [(state.length, state.lost) for state in await bus.streams() if state.name == "trade"] == [(360, 41)]

    said = [(m.provider, m.coin, m.epoch, m.from_ms, m.to_ms, m.cause) for m in await marks(bus)]
    assert said == [
        ("sim", "ETH", 7, 1_000, 1_001, "trimmed"),
        ("external", "BTC", 0, 1_030, 1_041, "trimmed"),
        ("sim", "BTC", 7, 1_001, 1_030, "trimmed"),
        ("sim", "ETH", 7, 1_002, 1_029, "trimmed"),
    ]
    assert {mark.up_to for mark in await marks(bus)} == {await bus.head("trade")}
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "me")


async def test_a_reader_that_keeps_up_costs_no_mark(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    ids = await bus.append("trade", [ours(n) for n in range(500)])
    await bus.ack_up_to("trade", G, ids[299])
    assert await trim_stream(bus, "trade", cap=100) == Trimmed(removed=300, lost=0)
    assert await marks(bus) == []


async def test_what_the_lake_has_not_committed_stays_even_if_a_group_has_acked_it(bus: Bus) -> None:
    await bus.ensure_group("trade", G)
    ids = await bus.append("trade", [ours(n) for n in range(GROWTH + 300)])
    await bus.ack_up_to("trade", G, ids[-1])
    assert await trim_stream(bus, "trade", cap=5_000, committed=ids[9]) == Trimmed(removed=0, lost=0)
    assert await trim_stream(bus, "trade", cap=5_000, committed=ids[-101]) == Trimmed(removed=200, lost=0)
    assert await trim_stream(bus, "trade", cap=5_000, committed=ids[-1]) == Trimmed(removed=100, lost=0)
    assert await trim_stream(bus, "trade", cap=5_000) == Trimmed(removed=GROWTH - 5_000, lost=0)


async def test_candles_and_marks_of_a_feed_that_are_lost_are_marked_too(bus: Bus) -> None:
    minute = {"ver": "1", "t": "CANDLE", "provider": "sim", "coin": "BTC", "interval": "1m", "startTs": "60000"}
    values = dict.fromkeys("ohlcv", "1") | {"isClosed": "true", "eventTs": "120000"}
    hole = Mark(provider="sim", epoch=1, ts=9, from_ms=3, to_ms=8, cause="failover")
    await bus.append("candle", [minute | values])
    await bus.append("feed", [codec.encode(hole)])
    losses = Losses()
    losses.see([*await bus.read("candle"), *await bus.read("feed")])
    said = [(m.coin, m.from_ms, m.to_ms) for m in losses.marks({}, 100, "0")]
    assert said == [("", 3, 9), ("BTC", 60_000, 120_000)]


async def test_a_stream_that_grows_meanwhile_is_marked_up_to_what_is_left(bus: Bus) -> None:
    ids = await bus.append("trade", [ours(0), ours(1), ours(9)])
    losses = Losses()
    losses.see((await bus.read("trade"))[:1])
    losses.reach(await bus.read("trade", ids[1]))
    assert [(m.from_ms, m.to_ms) for m in losses.marks({}, 100, "0")] == [(1_000, 1_010)]
