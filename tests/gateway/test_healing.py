"""The SDK over a real gateway: lost ticks are read from it, and markets' metadata follows it."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from artery.client import Artery
from artery.client import healed as healing
from artery.client import symbols as listing
from artery.client.frames import Gap
from artery.client.healed import FAILOVER, fill, healed
from artery.client.relayed import MISSED, Ticks
from artery.model import symbols
from artery.model.channels import Channel
from artery.model.events import Trade
from artery.model.symbols import Symbol
from artery.pipeline.published import tick
from artery.wire.artery_pb2 import SymbolMetadataUpdated
from tests.gateway.made import T0, trade
from tests.gateway.running import WAIT_S, started, until

MARKET = Channel("sim", "BTC")


async def heard(*trades: Trade) -> AsyncIterator[Trade | Gap]:
    """What a client hears of the relay if only these ticks arrive."""
    order = Ticks(MARKET)
    for one in trades:
        for item in order.take(tick(one)):
            yield item


async def test_what_was_lost_at_a_high_water_mark_comes_from_the_gateway_in_its_place(tmp_path: Path) -> None:
    made = [trade(seq, ts=T0 + seq) for seq in range(1, 41)]
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await running.append("trade", *made)
        lossy = heard(*made[:5], *made[20:25], made[39])
        found = [item async for item in healed(lossy, artery.trades)]
    assert [item.seq for item in found if isinstance(item, Trade)] == list(range(1, 41))
    assert [item.px for item in found if isinstance(item, Trade)] == [one.px for one in made]


async def test_what_the_gateway_does_not_have_either_stays_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "AGAIN_S", 0.0)
    made = [trade(seq, ts=T0 + seq) for seq in range(1, 11)]
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await running.append("trade", *made[:4], *made[6:])
        found = [item async for item in healed(heard(made[0], made[9]), artery.trades)]
    shown = [item.seq if isinstance(item, Trade) else (item.reason, item.from_ms, item.to_ms) for item in found]
    assert shown == [1, 2, 3, 4, (MISSED, T0 + 4, T0 + 7), 7, 8, 9, 10]


async def test_a_gateway_that_is_away_leaves_the_gap_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "AGAIN_S", 0.0)
    async with Artery("http://127.0.0.1:9", "art_live_x.y") as artery:
        found = [item async for item in healed(heard(trade(1), trade(3)), artery.trades)]
    assert [type(item) for item in found] == [Trade, Gap, Trade]


def test_a_change_of_leader_is_said_because_nobody_can_tell_what_it_missed() -> None:
    old, new = trade(4, ts=T0, epoch=1), [trade(seq, ts=T0 + 10 + seq, epoch=2) for seq in (1, 2, 3)]
    gap = Gap(MARKET, "TRADE", MISSED, str(old.position), str(new[2].position), T0, T0 + 13)
    found = fill(gap, new)
    assert [item.reason if isinstance(item, Gap) else item.seq for item in found] == [FAILOVER, 1, 2]


async def test_metadata_comes_whole_and_then_whatever_is_newer(tmp_path: Path) -> None:
    told: asyncio.Queue[SymbolMetadataUpdated | None] = asyncio.Queue()

    async def updates() -> AsyncIterator[SymbolMetadataUpdated | None]:
        while True:
            yield await told.get()

    def version(number: int) -> bytes:
        return symbols.write(Symbol("sim", "BTC", "BTC", "USDC", Decimal(number), Decimal(1), version=number))

    async with started(tmp_path) as running, Artery(running.url, running.key) as artery, asyncio.timeout(WAIT_S):
        await running.store.put(symbols.key("sim", "BTC"), version(1))
        await until(artery.symbols)
        told.put_nowait(None)
        changes = listing.changes(updates(), artery.symbols)
        assert (await anext(changes)).version == 1
        await running.store.put(symbols.key("sim", "BTC"), version(2))

        async def newer() -> bool:
            return (await artery.symbols())[0].version == 2

        await until(newer)
        told.put_nowait(None)  # said twice: it comes once
        told.put_nowait(None)
        assert (await anext(changes)).tick_size == Decimal(2)
        await changes.aclose()
