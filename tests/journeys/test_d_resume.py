"""A client that was away for the lives of three leaders and of a pipeline comes back and has every event of the log."""

import asyncio
from pathlib import Path

from artery.bus.base import START
from artery.bus.open import open_bus
from artery.client import Artery, Gap
from artery.model import codec
from artery.model.events import Trade
from artery.model.series import Position
from bench.running import Running
from tests.journeys.killing import kill
from tests.journeys.waiting import until

COIN = "BTC"
LEADERS = 3


async def log_of(folder: Path) -> list[Trade]:
    """Every trade of the market on the bus, in order."""
    bus = open_bus(f"sqlite:///{folder}/bus.db")
    found: list[Trade] = []
    try:
        after = START
        while page := await bus.read("trade", after, 5_000):
            events = [codec.decode(entry.fields) for entry in page if entry.fields["coin"] == COIN]
            found += [event for event in events if isinstance(event, Trade)]
            after = page[-1].id
    finally:
        await bus.close()
    return found


async def newest(artery: Running) -> Position:
    return (await log_of(artery.folder / "sim"))[-1].position


async def seen_since(artery: Running, since: int | Position, last: Position) -> tuple[list[Trade], list[Gap]]:
    """What a client is given from there on, up to a place."""
    trades: list[Trade] = []
    gaps: list[Gap] = []
    async with asyncio.timeout(60), Artery(artery.url, artery.key) as client:
        async for item in client.stream(f"SIM:{COIN}", ["TRADE"], since):
            if isinstance(item, Gap):
                gaps.append(item)
            elif isinstance(item, Trade):
                trades.append(item)
                if item.position >= last:
                    return trades, gaps
    raise AssertionError("the stream ended")


async def test_who_was_away_for_three_leaders_and_a_pipeline_has_every_event(artery: Running) -> None:
    async with asyncio.timeout(60), Artery(artery.url, artery.key) as client:
        async for item in client.stream(f"SIM:{COIN}", ["TRADE"]):
            if isinstance(item, Trade):
                left = item.position
                break
    epoch = left.epoch
    for leader in range(LEADERS):
        kill(artery, "serve")
        if leader == 0:
            kill(artery, "pipeline")

        async def next_leader(before: int = epoch) -> int:
            place = await newest(artery)
            return place.epoch if place.epoch > before and place.seq > 3 else 0

        epoch = await until("the next leader's trades", next_leader)

    await artery.until_open()
    last = await newest(artery)
    trades, gaps = await seen_since(artery, left, last)
    log = await log_of(artery.folder / "sim")
    assert [trade for trade in log if left < trade.position <= trades[-1].position] == trades
    turns = [gap for gap in gaps if gap.reason == "failover"]
    assert len({trade.epoch for trade in trades}) == LEADERS + (trades[0].epoch == left.epoch)
    assert len(turns) >= LEADERS, "every change of leaders is told"
    assert {gap.reason for gap in gaps} <= {"failover", "upstream"}, "nothing of the log is missing"

    whole, gaps = await seen_since(artery, 0, last)
    assert [trade for trade in log if trade.position <= whole[-1].position] == whole[-len(log) :]
    assert {gap.reason for gap in gaps} <= {"failover", "upstream"}
