"""History on request and live data over ZeroMQ, through all of Artery."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

import artery.wire
from artery.bus.open import open_bus
from artery.client.relay import Progress, Relay
from artery.errors import Unavailable
from artery.lake.reads import Lake
from artery.model.events import Candle, Trade
from artery.store.open import open_store
from artery.wire import relays
from artery.wire.artery_pb2 import HistoryReadyNotification, StatusResponse
from bench.running import Running
from tests.journeys.waiting import until

Ready = HistoryReadyNotification
SEED_CLIENT = Path(__file__).parent / "seed_client.py"
PROTO = Path(artery.wire.__file__).parent / "artery.proto"
HOUR = 3_600_000


async def where(artery: Running) -> relays.Relay:
    """The relay that this Artery runs, once it is there."""

    async def known() -> list[relays.Relay]:
        store = open_store(f"sqlite:///{artery.folder}/sim/store.db")
        try:
            return relays.decode(await store.scan(relays.PREFIX))
        finally:
            await store.close()

    return (await until("a relay", known))[0]


async def caught_up(artery: Running) -> None:
    """Wait until the lake holds the chart's past, so that a test's wait is its request's alone."""
    lake, bus = Lake(artery.folder / "sim"), open_bus(f"sqlite:///{artery.folder}/sim/bus.db")

    async def there() -> bool:
        reached = (await asyncio.to_thread(lake.positions))["history"]
        return 100 < int(await bus.head("history")) <= int(reached)

    try:
        await until("the past in the lake", there, within_s=400)
    finally:
        lake.close()
        await bus.close()


@pytest.mark.timeout(600)
async def test_history_that_the_lake_lacks_is_fetched_and_a_second_time_is_there(artery: Running) -> None:
    at, seen = await where(artery), list[Progress]()
    await caught_up(artery)
    async with asyncio.timeout(150), Relay(at.requests, at.clients) as relay:
        start = int(time.time() * 1_000) // HOUR * HOUR - 40 * 24 * HOUR
        asked = ("SIM:XRP", "30m", start, start + 200 * HOUR)
        outcome = await relay.fetch(*asked, progress=seen.append)
        assert (outcome.status, outcome.rows) == (Ready.READY, 400)
        began = time.monotonic()
        again = await relay.fetch(*asked)
        assert (again.status, again.rows) == (Ready.READY, 400)
        assert again.request_id != outcome.request_id
        status = await relay.status(outcome.request_id)
        assert (status.state, status.outcome) == (StatusResponse.DONE, outcome)
        print(f"a second time: {time.monotonic() - began:.1f} s")


@pytest.mark.timeout(600)
async def test_what_the_venue_does_not_have_is_empty_and_what_it_refuses_an_error(artery: Running) -> None:
    at = await where(artery)
    await caught_up(artery)
    async with asyncio.timeout(150), Relay(at.requests, at.clients) as relay:
        empty = await relay.fetch("SIM:BTC", "1h", 0, 100 * HOUR)
        assert (empty.status, empty.rows) == (Ready.EMPTY, 0)
        with pytest.raises(Unavailable, match="no candles of 7s"):
            await relay.fetch("SIM:BTC", "7s", "1h")


async def test_ticks_and_candles_are_heard_live(artery: Running) -> None:
    at = await where(artery)
    async with asyncio.timeout(120), Relay(at.requests, at.clients) as relay:
        trades: list[Trade] = []
        async for item in relay.ticks("SIM:BTC"):
            assert isinstance(item, Trade), f"{item} was lost"
            trades.append(item)
            if len(trades) == 5:
                break
        assert [trade.seq for trade in trades] == list(range(trades[0].seq, trades[0].seq + 5))
        async for candle in relay.candles("SIM:BTC", "1m"):
            assert isinstance(candle, Candle)
            assert candle.l <= candle.c <= candle.h
            break


@pytest.mark.timeout(600)
async def test_a_client_written_from_the_document_alone_gets_its_history_and_its_ticks(
    artery: Running, tmp_path: Path
) -> None:
    at = await where(artery)
    await caught_up(artery)
    start = int(time.time() * 1_000) // HOUR * HOUR - 30 * 24 * HOUR
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SEED_CLIENT), str(PROTO), str(tmp_path), at.requests, at.clients,
        str(artery.folder / "sim" / "lake"), "SIM:SOL", str(start), str(start + 50 * HOUR), "3600",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(200):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    found = json.loads(out)
    assert (found["status"], found["rows"], found["read"]) == ("READY", 50, 50)
    assert {tick["ticker"] for tick in found["ticks"]} == {"SIM:SOL"}
    first = found["ticks"][0]["seq"]
    assert [tick["seq"] for tick in found["ticks"]] == list(range(first, first + 5))
