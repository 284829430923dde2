"""The venue's REST, against the simulated one on a real socket, and against servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from artery.errors import BadInput, BadSetting, Unavailable
from artery.model.periods import DERIVED, Period
from artery.providers.hyperliquid_venue import HyperliquidVenue
from artery.providers.open import open_venue
from artery.providers.sim.http import read_request
from artery.providers.sim.listing import LISTINGS
from artery.settings import Settings
from tests.providers.venue import place

MINUTE = Period(60)


@asynccontextmanager
async def paging(rows_max: int, *, newest: bool, first: int = 0) -> AsyncIterator[tuple[HyperliquidVenue, list[Any]]]:
    """A venue that has minutes from `first` on and answers with so many rows at most, the oldest or the newest."""
    asked: list[Any] = []

    def body(content: bytes) -> bytes:
        request = msgspec.json.decode(content)["req"]
        asked.append((request["startTime"], request["endTime"]))
        starts = range(max(first, -(-request["startTime"] // MINUTE.ms)), request["endTime"] // MINUTE.ms + 1)
        chosen = starts[-rows_max:] if newest else starts[:rows_max]
        row = {"T": 0, "s": "BTC", "i": "1m", "o": "1", "c": "1", "h": "1", "l": "1", "v": "2", "n": 1}
        return msgspec.json.encode([{"t": start * MINUTE.ms} | row for start in chosen])

    async with answering(body) as venue:
        yield venue, asked


@asynccontextmanager
async def answering(body: Any, status: bytes = b"200 OK") -> AsyncIterator[HyperliquidVenue]:
    """A venue whose REST answers with what `body` makes of each request."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        buffer = b""
        while part := await reader.read(65_536):
            buffer += part
            if request := read_request(buffer):
                buffer = buffer[request.size :]
                content = body(request.body)
                writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(content)) + content)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    venue = HyperliquidVenue("sim", "", f"http://127.0.0.1:{port}/info", weight_per_min=0)
    try:
        yield venue
    finally:
        await venue.close()
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def test_markets_are_read_with_their_ticks() -> None:
    async with place() as at:
        markets = {market.key: market for market in await at.venue.markets()}
    assert list(markets) == [listing.coin for listing in LISTINGS]
    assert (markets["BTC"].tick_size, markets["BTC"].size_step) == (Decimal(1), Decimal("0.00001"))
    assert (markets["DOGE"].tick_size, markets["DOGE"].size_step) == (Decimal("0.00001"), Decimal(1))
    assert {market.status for market in markets.values()} == {"open"}


async def test_three_days_of_every_period_can_be_read() -> None:
    async with place(rate=30) as at:
        now = at.server.now_ms()
        for period in DERIVED:
            assert period in at.venue.periods()
            candles = await at.venue.candles("ETH", period, now - 3 * 86_400_000, now)
            starts = [candle.start_ts for candle in candles]
            assert starts == sorted(set(starts))
            assert starts[0] == -(-(now - 3 * 86_400_000) // period.ms) * period.ms
            assert [candle.closed for candle in candles] == [
                start + period.ms <= candle.event_ts for start, candle in zip(starts, candles, strict=True)
            ]


async def test_only_candles_that_start_in_the_range_are_given() -> None:
    async with place(rate=30) as at:
        end = MINUTE.start(at.server.now_ms()) - MINUTE.ms
        candles = await at.venue.candles("BTC", MINUTE, end - 3 * MINUTE.ms, end)
        assert [candle.start_ts for candle in candles] == [end - 3 * MINUTE.ms, end - 2 * MINUTE.ms, end - MINUTE.ms]
        assert await at.venue.candles("BTC", MINUTE, end, end) == []


async def test_recent_trades_come_oldest_first() -> None:
    async with place() as at:
        trades = await at.venue.recent_trades("SOL")
        truth = await at.truth("SOL", trades[0].ts, trades[-1].ts + 1)
        assert {trade.tid for trade in trades} <= {trade.tid for trade in truth}
        assert [trade.ts for trade in trades] == sorted(trade.ts for trade in trades)


@pytest.mark.parametrize("newest", [True, False])
async def test_pages_are_followed_in_both_directions_until_nothing_is_missing(newest: bool) -> None:
    async with paging(500, newest=newest) as (venue, asked):
        candles = await venue.candles("BTC", MINUTE, 1_000 * MINUTE.ms, 2_750 * MINUTE.ms)
    assert [candle.start_ts // MINUTE.ms for candle in candles] == list(range(1_000, 2_750))
    assert len(asked) == 4


async def test_what_the_venue_does_not_have_any_more_is_asked_for_once() -> None:
    async with paging(5_000, newest=True, first=4_000) as (venue, asked):
        candles = await venue.candles("BTC", MINUTE, 1_000 * MINUTE.ms, 5_000 * MINUTE.ms)
    assert [candle.start_ts // MINUTE.ms for candle in candles] == list(range(4_000, 5_000))
    assert len(asked) == 2


async def test_a_period_that_the_venue_does_not_have_is_refused() -> None:
    async with place() as at:
        with pytest.raises(BadInput, match="7m"):
            await at.venue.candles("BTC", Period(420), 0, 1)


@pytest.mark.parametrize("status", [b"500 Internal Server Error", b"429 Too Many Requests", b"503 Service Unavailable"])
async def test_a_venue_in_trouble_can_be_asked_again(status: bytes) -> None:
    async with answering(lambda _: b"", status) as venue:
        with pytest.raises(Unavailable) as error:
            await venue.recent_trades("BTC")
    assert error.value.temporary


async def test_a_refused_request_is_not_worth_repeating() -> None:
    async with answering(lambda _: b"", b"422 Unprocessable Entity") as venue:
        with pytest.raises(BadInput):
            await venue.recent_trades("BTC")


async def test_a_venue_that_is_away_can_be_asked_again() -> None:
    async with place() as at:
        await at.server.stop()
        with pytest.raises(Unavailable):
            await at.venue.markets()


async def test_an_answer_without_end_is_cut_off() -> None:
    async with answering(lambda _: b" " * (17 * 1024 * 1024)) as venue:
        with pytest.raises(Unavailable, match="larger"):
            await venue.recent_trades("BTC")


async def test_an_answer_that_makes_no_sense_can_be_asked_for_again() -> None:
    async with answering(lambda _: b"<html>") as venue:
        with pytest.raises(Unavailable, match="cannot be read"):
            await venue.candles("BTC", MINUTE, 0, 60_000)


async def test_the_settings_choose_the_venue() -> None:
    for provider in ("sim", "hyperliquid_perp"):
        venue = open_venue(Settings().with_(ingest={"provider": provider}))
        assert venue.provider == provider
        await venue.close()
    with pytest.raises(BadSetting, match="ART_INGEST_PROVIDER"):
        open_venue(Settings().with_(ingest={"provider": "nasdaq"}))


async def test_the_simulated_venue_is_found_on_its_port() -> None:
    async with place() as at:
        venue = open_venue(Settings().with_(sim={"port": at.port}))
        assert [market.key for market in await venue.markets()][:2] == ["BTC", "ETH"]
        await venue.close()
