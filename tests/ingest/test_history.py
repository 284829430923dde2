"""The chart's past, and the candles of holes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.errors import BadInput, Unavailable
from artery.model.events import Candle
from artery.model.periods import DERIVED, Period
from artery.providers.base import Down, Up
from artery.wire import history as wire
from tests.ingest.make import T0
from tests.ingest.scripted import Stage, until

MINUTE = Period(60)


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncIterator[Stage]:
    """A feed that starts for the first time and wants a day of the past."""
    one = Stage(tmp_path, history_days=1.0)
    yield one
    await one.close()


async def pages(stage: Stage) -> list[tuple[str, list[Candle]]]:
    """(request id, candles) of each page on the bus."""
    batches = [wire.decode(entry.fields) for entry in await stage.entries("history")]
    return [(batch.request_id, wire.candles(batch, event_ts=T0)) for batch in batches]


async def repaired_minutes(stage: Stage) -> set[int]:
    """The starts of the minutes of BTC that were repaired."""
    found = await pages(stage)
    return {each.start_ts for name, rows in found for each in rows if name.startswith("own:repair:sim:BTC:1m:")}


async def asked_for(stage: Stage, ms: int, period: str = "1m") -> bool:
    """Whether the venue was asked for the candle of BTC that starts here."""
    return any(ask[:2] == ("BTC", period) and ask[2] <= ms < ask[3] for ask in stage.venue.asked)


async def on_the_bus(stage: Stage, request: str) -> bool:
    """Whether a page of a request that begins like this is there."""
    return any(entry.fields["request_id"].startswith(request) for entry in await stage.entries("history"))


async def past_done(stage: Stage) -> bool:
    return len(await stage.store.scan("artery:history:sim:")) == 2 * len(DERIVED)


async def test_the_first_start_fetches_the_past_shortest_period_first(fresh: Stage) -> None:
    async with fresh.term(10):
        await until(lambda: past_done(fresh), "all of the past is fetched")
    found = await pages(fresh)
    assert [request for request, _ in found[:4]] == ["own:first:sim:BTC:1m"] * 3 + ["own:first:sim:ETH:1m"]
    assert all(0 < len(candles) <= wire.PAGE_ROWS for _, candles in found)
    for coin in ("BTC", "ETH"):
        for period in DERIVED:
            starts = [
                candle.start_ts
                for request, candles in found
                for candle in candles
                if request == f"own:first:sim:{coin}:{period}"
            ]
            rows = 1_440 if period == MINUTE else 1_500
            assert starts == list(range(period.start(T0) - rows * period.ms, period.start(T0), period.ms))
    assert all(candle.closed for _, candles in found for candle in candles)
    last_pages = [batch for batch in map(wire.decode, [e.fields for e in await fresh.entries("history")]) if batch.last]
    assert len(last_pages) == 2 * len(DERIVED)


async def test_the_second_start_fetches_only_what_the_stop_left_out(fresh: Stage) -> None:
    async with fresh.term(10):
        await until(lambda: past_done(fresh), "all of the past is fetched")
        vouched = await fresh.clock_beyond(T0)
    before = len(await fresh.entries("history"))
    fresh.venue.asked.clear()
    fresh.venue.now_ms += 600_000
    async with fresh.term(11):

        async def repaired() -> bool:
            return len(await fresh.entries("history")) >= before + 4

        await until(repaired, "the stop's candles are there")
        await fresh.advance(1_000)
    assert {(coin, period) for coin, period, _, _ in fresh.venue.asked} == {
        (coin, period) for coin in ("BTC", "ETH") for period in ("1m", "5m")
    }
    found = (await pages(fresh))[before:]
    starts = {candle.start_ts for _, candles in found for candle in candles if candle.period == MINUTE}
    assert starts == set(range(MINUTE.start(vouched), MINUTE.start(fresh.now_ms - 4_000), MINUTE.ms))


async def test_a_candle_that_a_hole_touched_comes_from_the_venue_once_it_is_over(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.venue.say(Down(cause="closed", from_ms=stage.now_ms + 5_000))
        await stage.advance(6_000)
        stage.venue.say(Up(("BTC", "ETH"), stage.now_ms))
        await stage.marks(4)
        stage.venue.now_ms = T0 + 60_000
        await stage.advance(1_000)
        assert not await asked_for(stage, T0)
        await stage.advance_until(lambda: asked_for(stage, T0), "the minute of the hole is asked for")
        assert stage.now_ms <= T0 + 60_000 + 15_000

        async def repaired() -> bool:
            return T0 in await repaired_minutes(stage)

        await until(repaired, "the minute of the hole is repaired")
    for request, candles in await pages(stage):
        *_, coin, period, start, end = request.split(":")
        assert {(candle.coin, str(candle.period), candle.closed) for candle in candles} == {(coin, period, True)}
        assert all(int(start) <= candle.start_ts < int(end) for candle in candles)


async def test_longer_candles_of_a_hole_are_repaired_by_whoever_leads_when_they_close(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        await stage.clock_beyond(T0)
    stage.venue.now_ms = T0 + 3_600_000 - 1_000
    async with stage.term(11):
        await stage.marks(4)
        await stage.advance(500)
        assert not await asked_for(stage, T0, "1h")

        async def repaired() -> bool:
            return await asked_for(stage, T0, "1h")

        await stage.advance_until(repaired, "the hour is repaired")
        assert stage.now_ms <= T0 + 3_600_000 + 20_000
        await until(lambda: on_the_bus(stage, f"own:repair:sim:BTC:1h:{T0}:"), "it is on the bus")


async def test_candles_of_a_feed_that_stays_down_come_from_the_venue(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.venue.say(Down(cause="closed", from_ms=stage.now_ms))
        await stage.marks(3)
        stage.venue.now_ms = T0 + 120_000
        await stage.advance_until(lambda: asked_for(stage, T0 + 60_000), "a minute is repaired while the hole is open")
        await until(lambda: on_the_bus(stage, "own:repair:sim:BTC:1m:"), "it is on the bus")


async def test_a_venue_that_is_away_is_asked_again(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.venue.rest_error = Unavailable("away")
        stage.venue.now_ms = T0 + 70_000
        await until(lambda: asked_for(stage, T0), "the venue is asked")
        assert T0 not in await repaired_minutes(stage)
        stage.venue.rest_error = None

        async def repaired() -> bool:
            return T0 in await repaired_minutes(stage)

        await stage.advance_until(repaired, "the minute is repaired")


async def test_what_the_venue_refuses_is_given_up_and_the_feed_goes_on(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.venue.rest_error = BadInput("no such candles")
        stage.venue.now_ms = T0 + 70_000
        await until(lambda: asked_for(stage, T0), "the venue is asked")
        stage.venue.rest_error = None
        await stage.clock_beyond(T0 + 75_000)
        assert T0 not in await repaired_minutes(stage)


async def test_the_same_repair_is_not_made_twice_over_a_restart(stage: Stage) -> None:
    async def whole() -> bool:
        return len(await stage.store.scan("artery:repair:sim:")) == 2 * (len(DERIVED) - 1)

    async with stage.term(10):
        await until(whole, "the day so far is repaired, but for the day itself")
    done = {request for request, _ in await pages(stage)}
    stage.venue.asked.clear()
    async with stage.term(11):
        await stage.marks(4)
        await stage.clock_beyond(stage.now_ms + 8_000)
    day_start = T0 // 86_400_000 * 86_400_000
    assert done
    assert not [start for _, _, start, _ in stage.venue.asked if start <= day_start]
