"""A market that the settings do not name, on demand, through all of Artery: by WebSocket and by ZeroMQ."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from artery.client import Artery, Gap
from artery.client.relay import Relay
from artery.errors import UnknownChannel
from artery.lake.reads import Lake
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.store import demand
from artery.store.base import Store
from artery.store.open import open_store
from bench.running import Running
from tests.journeys.test_a_relay import where
from tests.journeys.waiting import until

AVAX = Channel("sim", "AVAX")


@contextlib.asynccontextmanager
async def store_of(artery: Running) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{artery.folder}/sim/store.db")
    try:
        yield store
    finally:
        await store.close()


async def nobody_wants_it(artery: Running) -> None:
    async with store_of(artery) as store:

        async def gone() -> bool:
            return AVAX not in await demand.demanded(store)

        await until("the demand ends", gone, within_s=90)


async def followed(client: Artery) -> bool:
    return next(bool(row["followed"]) for row in await client.markets() if row["ticker"] == "SIM:AVAX")


@pytest.mark.timeout(400)
async def test_a_market_that_nobody_followed_comes_alive_when_someone_subscribes_and_is_left_afterwards(
    artery: Running,
) -> None:
    async with Artery(artery.url, artery.key) as client:

        async def listed() -> list[str]:
            return [symbol.ticker for symbol in await client.symbols() if symbol.coin == "AVAX"]

        await until("the venue's markets", listed)
        with pytest.raises(UnknownChannel):
            await anext(client.stream("SIM:NOPE"))
        began, seen, gaps = time.monotonic(), set[type](), list[Gap]()
        async with asyncio.timeout(120):
            stream = client.stream("SIM:AVAX", types=["TRADE", "CANDLE:1m"])
            async for event in stream:
                if Trade not in seen and isinstance(event, Trade):
                    print(f"the first trade after {time.monotonic() - began:.1f} s")
                seen.add(type(event))
                gaps += [event] if isinstance(event, Gap) else []
                if seen >= {Trade, Candle}:
                    break
        assert {gap.reason for gap in gaps} <= {"upstream"}, "only what nobody watched before is missing"
        assert await until("it is followed", lambda: followed(client))

        async def past() -> bool:
            return (await client.history("SIM:AVAX", "1m", "1d")).num_rows > 1_000

        await until("its past", past)
        await stream.aclose()
        await nobody_wants_it(artery)

        async def left() -> bool:
            return not await followed(client)

        await until("it is left", left, within_s=60)


@pytest.mark.timeout(400)
async def test_a_market_that_nobody_followed_comes_alive_over_zeromq_too(artery: Running) -> None:
    at = await where(artery)
    async with asyncio.timeout(120), Relay(at.requests, at.clients) as relay:
        trades: list[Trade] = []
        async for item in relay.ticks("SIM:AVAX"):
            if isinstance(item, Trade):
                trades.append(item)
            if len(trades) == 3:
                break
        assert [trade.seq - trades[0].seq for trade in trades] == [0, 1, 2]
        async for candle in relay.candles("SIM:AVAX", "1m"):
            assert candle.coin == "AVAX"
            break
    await nobody_wants_it(artery)


async def test_the_table_of_symbols_has_every_market_once_a_version(artery: Running) -> None:
    lake = Lake(artery.folder / "sim")

    async def rows() -> list[tuple[str, int]]:
        found = await asyncio.to_thread(lake.scan, "symbols")
        return sorted(zip(found["ticker"].to_pylist(), found["version"].to_pylist(), strict=True))

    found = await until("symbols in the lake", rows)
    lake.close()
    assert {ticker for ticker, _ in found} >= {"SIM:BTC", "SIM:AVAX"}
    assert len(found) == len(set(found))
