"""The shared socket against a real venue: whatever it does, the feed comes back and says what it missed."""

import time

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY

from artery.errors import BadSetting
from artery.providers.base import Batch, Down, Up
from artery.providers.hyperliquid_venue import HyperliquidVenue
from artery.providers.timing import Timing
from tests.providers.venue import CALM, Ear, Place, ear, place


def bad_frames() -> float:
    """How many frames and rows of the simulated venue were counted as bad."""
    rows = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    return sum(row.value for row in rows if row.name == "artery_provider_bad_total" and row.labels["provider"] == "sim")


async def assert_no_undetected_gap(at: Place, heard: Ear, coin: str, since_ms: int) -> None:
    """From this moment to the last trade heard, what was not told lies in a hole that was; and nothing was made up."""
    last = await heard.until_trade(coin, max(since_ms, at.server.now_ms()))
    for _ in range(10):
        last = await heard.until_trade(coin, last.ts)
    told = {trade.tid for trade in heard.trades(coin) if since_ms < trade.ts < last.ts}
    truth = {trade.tid: trade.ts for trade in await at.truth(coin, since_ms + 1, last.ts)}
    holes = heard.holes(coin)
    missed = [ts for tid, ts in truth.items() if tid not in told]
    assert told <= truth.keys()
    assert told
    assert [ts for ts in missed if not any(start <= ts <= end for start, end in holes)] == []


async def test_a_feed_comes_up_and_tells_every_trade() -> None:
    async with place() as at, ear(at.venue, "BTC", "ETH") as heard:
        up = await heard.until_up("BTC", "ETH")
        assert abs(up.at_ms - time.time() * 1_000) < 30_000
        await assert_no_undetected_gap(at, heard, "BTC", up.at_ms)
        await assert_no_undetected_gap(at, heard, "ETH", up.at_ms)
        kinds = {type(event).__name__ for signal in heard.heard if isinstance(signal, Batch) for event in signal.events}
        assert kinds == {"Trade", "Book", "Mids"}


async def test_a_dropped_socket_is_a_hole_and_is_back_without_being_asked() -> None:
    async with place() as at, ear(at.venue, "BTC", "ETH") as heard:
        await heard.until_up("BTC", "ETH")
        before = await heard.until_trade("BTC")
        await at.fault(drop=True)
        down = await heard.until_down()
        assert down.coins == ()
        await heard.until_up("BTC", "ETH")
        await assert_no_undetected_gap(at, heard, "BTC", before.ts)
        await assert_no_undetected_gap(at, heard, "ETH", before.ts)


async def test_a_stalled_socket_is_noticed_and_replaced() -> None:
    async with place(timing=replace(CALM, silence_s=1.0)) as at, ear(at.venue, "BTC") as heard:
        await heard.until_up("BTC")
        last = await heard.until_trade("BTC")
        await at.fault(stall_s=600)
        down = await heard.until_down()
        assert "no data" in down.cause
        assert down.from_ms <= max(trade.ts for trade in heard.trades("BTC"))
        await at.fault(stall_s=0)
        await heard.until_up("BTC")
        await assert_no_undetected_gap(at, heard, "BTC", last.ts)


async def test_a_refusing_venue_is_tried_until_it_takes_us() -> None:
    async with place() as at, ear(at.venue, "BTC") as heard:
        await heard.until_up("BTC")
        await at.fault(refuse_s=0.5, drop=True)
        await heard.until_down()
        await heard.until_up("BTC")
        assert len(heard.downs()) == 1


async def test_a_refused_market_is_found_and_does_not_hold_up_the_others() -> None:
    async with place() as at, ear(at.venue, "BTC", "NOPE", "ETH", "btc", "SOL") as heard:
        await heard.until(lambda signal: isinstance(signal, Up) and "SOL" in signal.coins)
        await heard.until_trade("ETH")
        watched = {coin for signal in heard.heard if isinstance(signal, Up) for coin in signal.coins}
        refused = {down.coins for down in heard.downs() if down.coins}
        assert watched == {"BTC", "ETH", "SOL"}
        assert refused == {("NOPE",), ("btc",)}


async def test_trying_a_refused_market_again_does_not_disturb_the_others() -> None:
    async with place() as at, ear(at.venue, "BTC", "NOPE") as heard:
        await heard.until(lambda signal: isinstance(signal, Down) and signal.coins == ("NOPE",))
        up = await heard.until_up("BTC")
        downs = len(heard.downs())
        await heard.until_trade("BTC", up.at_ms + 1_500)
        await assert_no_undetected_gap(at, heard, "BTC", up.at_ms)
        assert len(heard.downs()) == downs


async def test_a_market_that_is_never_acknowledged_does_not_hold_up_the_others() -> None:
    async with place(timing=replace(CALM, ack_s=0.5)) as at:
        await at.fault(mute_coin="ETH")
        async with ear(at.venue, "ETH", "BTC", "SOL") as heard:
            await heard.until_trade("BTC")
            await heard.until_trade("SOL")
            assert ("ETH",) in [down.coins for down in heard.downs()]
            assert heard.trades("ETH") == []
            await at.fault(mute_coin=None)
            await heard.until_up("ETH")
            await heard.until_trade("ETH")


async def test_a_market_that_falls_silent_is_down_and_comes_back_while_the_others_go_on() -> None:
    timing = replace(CALM, book_stale_s=1.0, ack_s=1.0)
    async with place(timing=timing) as at, ear(at.venue, "BTC", "ETH") as heard:
        first = await heard.until_up("BTC", "ETH")
        await heard.until_trade("ETH")
        await at.fault(mute_coin="ETH")
        down = await heard.until(lambda signal: isinstance(signal, Down) and signal.coins == ("ETH",))
        assert isinstance(down, Down)
        assert down.from_ms <= max(trade.ts for trade in heard.trades("ETH"))
        await at.fault(mute_coin=None)
        await heard.until_up("ETH")
        await assert_no_undetected_gap(at, heard, "ETH", first.at_ms)
        await assert_no_undetected_gap(at, heard, "BTC", first.at_ms)


async def test_garbage_is_counted_and_the_good_frames_around_it_are_unaffected() -> None:
    async with place() as at, ear(at.venue, "BTC") as heard:
        up = await heard.until_up("BTC")
        before = bad_frames()
        await at.fault(garbage=24)
        await assert_no_undetected_gap(at, heard, "BTC", up.at_ms)
        await heard.until(lambda _: bad_frames() >= before + 24)
        assert heard.downs() == []


async def test_a_frame_of_ten_megabytes_is_survived() -> None:
    async with place() as at, ear(at.venue, "BTC") as heard:
        up = await heard.until_up("BTC")
        before = bad_frames()
        await at.fault(huge_frame_bytes=10_000_000)
        await heard.until(lambda _: bad_frames() > before)
        await assert_no_undetected_gap(at, heard, "BTC", up.at_ms)
        assert heard.downs() == []


async def test_a_frame_above_the_limit_costs_one_reconnect_at_most() -> None:
    async with place() as at, ear(at.venue, "BTC") as heard:
        await heard.until_up("BTC")
        await at.fault(huge_frame_bytes=20 * 1024 * 1024)
        await heard.until_down()
        up = await heard.until_up("BTC")
        await assert_no_undetected_gap(at, heard, "BTC", up.at_ms)


async def test_nobody_there_is_waited_for() -> None:
    async with place() as at:
        port, server = at.port, at.server
        async with ear(at.venue, "BTC") as heard:
            await heard.until_up("BTC")
            await server.stop()
            await heard.until_down()
            await server.start(port)
            await heard.until_up("BTC")
            assert len(heard.downs()) == 1


async def test_an_address_that_is_none_is_said_at_once() -> None:
    venue = HyperliquidVenue("sim", "not a url", "http://127.0.0.1:1/info", timing=CALM)
    async with ear(venue, "BTC") as heard:
        with pytest.raises(BadSetting, match="ART_VENUE_WS_URL"):
            await heard.until_up("BTC")


def test_a_stale_feed_is_noticed_within_15_seconds_and_back_within_25() -> None:
    """What the limits add up to, at their worst."""
    timing = Timing()
    noticed_s = max(timing.silence_s, timing.book_stale_s) + timing.tick_s
    assert noticed_s <= 15
    assert noticed_s + timing.close_s + timing.backoff_s + timing.open_s + timing.ack_s <= 25
