"""Ingest over the simulated venue's real socket and the real bus, compared with what really happened there."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from artery.ingest.marks import DROPPED
from artery.model import symbols
from artery.model.channels import Channel
from artery.model.events import Trade
from artery.model.periods import DERIVED, Period
from artery.store import demand
from artery.wire import history as wire
from tests.ingest.scripted import until
from tests.ingest.venue_and_feed import COINS, play


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_every_trade_of_the_venue_is_on_the_bus_once_and_published(tmp_path: Path) -> None:
    async with play(tmp_path) as one, one.pubsub.subscribe() as subscription:
        await subscription.add([f"artery:stream:sim:{coin}" for coin in COINS])
        async with one.serving():
            await one.traded(300)
            await one.vouched_beyond(now_ms())
        assert await one.check() > 100
        positions = [str(trade.position) for trade in await one.trades()]
        published: list[str] = []
        await one.pubsub.close()
        async for messages in subscription:
            published += [message.position for message in messages if message.series == "TRADE"]
        assert len(published) > 20
        assert published == positions[: len(published)]  # the stop may have come between the bus and the publishing
        assert (await one.marks())[0].cause == "start"


async def test_a_dropped_socket_is_a_marked_hole(tmp_path: Path) -> None:
    async with play(tmp_path) as one:
        async with one.serving():
            await one.vouched_beyond(now_ms())
            await one.disturb(drop=True)
            dropped = now_ms()
            mark = await one.marked(lambda mark: mark.from_ms < dropped <= mark.to_ms and mark.cause != "start")
            assert mark.coin == ""
            await one.vouched_beyond(now_ms())
        assert await one.check() > 0


async def test_a_venue_that_refuses_for_a_while_leaves_one_hole_that_covers_it(tmp_path: Path) -> None:
    async with play(tmp_path) as one:
        async with one.serving():
            await one.vouched_beyond(now_ms())
            away = now_ms()
            await one.disturb(refuse_s=0.6, drop=True)
            await one.state("connecting")
            mark = await one.marked(
                lambda mark: mark.from_ms <= away and mark.to_ms > away + 500 and mark.cause != "start"
            )
            assert mark.coin == ""
            await one.vouched_beyond(now_ms())
        assert await one.check() > 0


async def test_a_silent_socket_is_noticed_and_its_silence_marked(tmp_path: Path) -> None:
    async with play(tmp_path) as one:
        async with one.serving():
            await one.vouched_beyond(now_ms())
            began = now_ms()
            await one.disturb(stall_s=1.2)
            await one.marked(lambda mark: mark.from_ms <= began and mark.to_ms > began + 1_000)
            await one.vouched_beyond(now_ms())
        assert await one.check() > 0


async def test_bad_frames_do_not_harm_the_good_ones_between_them(tmp_path: Path) -> None:
    async with play(tmp_path) as one:
        async with one.serving():
            await one.vouched_beyond(now_ms())
            await one.disturb(garbage=40)
            await one.disturb(huge_frame_bytes=2_000_000)
            await one.vouched_beyond(now_ms())
        assert await one.check() > 0


async def test_the_next_leader_goes_on_without_repeating_what_the_venue_repeats(tmp_path: Path) -> None:
    async with play(tmp_path) as one:
        async with one.serving() as first:
            await one.vouched_beyond(now_ms())
            async with one.serving():
                first.cancel()
                with suppress(asyncio.CancelledError):
                    await first
                left = now_ms()
                await one.vouched_beyond(left)
        assert await one.check() > 0
        marks = await one.marks()
        assert len({mark.epoch for mark in marks}) == 2
        second = [mark for mark in marks if mark.epoch == max(mark.epoch for mark in marks)]
        assert second[0].last.keys() >= {f"{coin}|TRADE" for coin in COINS}


async def test_the_first_start_brings_the_venues_own_past(tmp_path: Path) -> None:
    async with play(tmp_path, trades_per_s=30.0, markets=("BTC", "DOGE"), history_days=0.5) as one:
        async with one.serving():

            async def done() -> bool:
                return len(await one.store.scan("artery:history:sim:")) == 2 * len(DERIVED)

            await until(done, "the past is there")
        batches = [wire.decode(entry.fields) for entry in await one.bus.read("history", limit=10_000)]
        minutes = [
            candle
            for batch in batches
            if batch.request_id == "own:first:sim:BTC:1m"
            for candle in wire.candles(batch, event_ts=0)
        ]
        assert len(minutes) > 600
        assert all(candle.closed for candle in minutes)
        last = minutes[-1]
        truth = await one.truth("BTC", last.start_ts, last.start_ts + Period(60).ms)
        assert last.n == len(truth)
        assert last.start_ts + 2 * 60_000 >= min(mark.to_ms for mark in await one.marks()) - 60_000


async def test_a_market_that_someone_wants_is_followed_within_seconds_and_left_when_nobody_does(tmp_path: Path) -> None:
    wanted = demand.key("g1", Channel("sim", "AVAX"))

    async def traded_there() -> list[Trade]:
        return [trade for trade in await one.trades() if trade.coin == "AVAX"]

    async def traded_since_then() -> bool:
        return len([trade for trade in await traded_there() if trade.ts >= first.to_ms]) > 2

    async with play(tmp_path) as one, one.serving():
        await one.vouched_beyond(now_ms())
        marks = len([mark for mark in await one.marks() if mark.coin == ""])
        await one.store.put(wanted, b"1")
        await until(traded_there, "trades of the market", 0.05)
        first = await one.marked(lambda mark: mark.coin == "AVAX" and mark.cause == "start")
        assert first.from_ms % 86_400_000 == 0
        await until(traded_since_then, "trades of the time that is vouched for", 0.05)
        await one.vouched_beyond(max(now_ms(), first.to_ms + 1_000))
        await one.store.delete(wanted)
        await one.marked(lambda mark: mark.coin == "AVAX" and mark.cause == DROPPED)
        left = len(await traded_there())
        await one.vouched_beyond(now_ms() + 1_000)
        assert len(await traded_there()) == left
        assert len([mark for mark in await one.marks() if mark.coin == ""]) == marks, "nobody else noticed"
        found = await traded_there()
        truth = await one.truth("AVAX", first.to_ms, found[-1].ts)
        assert [(trade.ts, trade.tid) for trade in found if first.to_ms <= trade.ts < found[-1].ts] == truth != []
        assert [trade.seq for trade in found] == list(range(1, len(found) + 1))


async def test_a_change_of_metadata_at_the_venue_arrives_without_a_restart(tmp_path: Path) -> None:
    async with play(tmp_path, symbols_s=0.1) as one, one.serving():

        async def versions() -> list[tuple[int, str]]:
            found = [symbols.decode(entry.fields) for entry in await one.bus.read("symbol")]
            return [(symbol.version, symbol.status) for symbol in found if symbol.coin == "AVAX"]

        await until(versions, "the market's first version")
        for order, count in (("AVAX", 2), (None, 3)):
            await one.disturb(delist=order)

            async def changed(wanted: int = count) -> bool:
                return len(await versions()) == wanted

            await until(changed, f"version {count}")
        assert await versions() == [(1, "open"), (2, "delisted"), (3, "open")]
