"""A leader's term over a scripted venue and the real bus."""

import asyncio
from itertools import pairwise

import msgspec
import pytest

from artery.bus.base import place
from artery.errors import Fenced
from artery.model import codec
from artery.model.events import Mark, Trade
from artery.providers.base import Down, Up
from tests.ingest.make import T0, batch, book, mids, trade
from tests.ingest.scripted import Stage, until

DAY_START = T0 // 86_400_000 * 86_400_000


async def test_every_trade_is_on_the_bus_once_in_order_with_its_place(stage: Stage) -> None:
    async with stage.term(10):
        for number in range(0, 300, 3):
            coin = "BTC" if number % 2 else "ETH"
            stage.venue.say(batch(*(trade(number + extra, T0 + number, coin) for extra in range(3))))
        assert await stage.written(300) == [str(number) for number in range(300)]
    events = [codec.decode(entry.fields) for entry in await stage.entries("trade")]
    for coin in ("BTC", "ETH"):
        own = [event for event in events if isinstance(event, Trade) and event.coin == coin]
        assert [event.seq for event in own] == list(range(1, 151))
        assert {event.epoch for event in own} == {10}


async def test_an_event_is_on_the_bus_before_it_is_published(stage: Stage) -> None:
    async with stage.term(10):
        for number in range(50):
            stage.venue.say(batch(trade(number, T0 + number), book(number, T0 + number)))
            await asyncio.sleep(0)
        await stage.written(50)

        async def published() -> bool:
            return sum(message.series == "TRADE" for message in stage.pubsub.messages) == 50

        await until(published, "all trades are published")
    appended = published_count = 0
    for what, _ in stage.bus.happened:
        appended += what == "append trade"
        published_count += what == "publish TRADE"
        assert published_count <= appended
    assert published_count == 50


async def test_what_is_published_is_what_is_on_the_bus(stage: Stage) -> None:
    async with stage.term(10):
        stage.venue.say(batch(trade(1), book(5), mids()))

        async def published() -> bool:
            return {message.series for message in stage.pubsub.messages} == {"TRADE", "BOOK_TOPN", "MIDS"}

        await until(published, "all three are published")
    by_series = {message.series: message for message in stage.pubsub.messages}
    (entry,) = await stage.entries("trade")
    assert msgspec.json.decode(by_series["TRADE"].data) == entry.fields
    assert by_series["TRADE"].channel == "artery:stream:sim:BTC"
    assert by_series["TRADE"].position == f"10.1.{T0}"
    assert by_series["MIDS"].channel == "artery:stream:sim:*"
    assert [entry.fields["t"] for entry in await stage.entries("book")] == ["BOOK_TOPN"]


async def test_the_first_word_is_a_mark_of_the_day_so_far(stage: Stage) -> None:
    async with stage.term(10, up=False):
        (mark,) = await stage.marks()
        first = await stage.entries("feed")
        assert first[0].fields == mark
        assert (int(mark["from"]), mark["cause"], mark["coin"]) == (DAY_START, "start", "")
        stage.venue.now_ms += 700
        stage.venue.say(Up(("BTC", "ETH"), stage.now_ms))
        grown = (await stage.marks(2))[1]
        assert int(grown["from"]) == DAY_START
        assert int(grown["to"]) >= stage.now_ms


async def test_the_clock_is_said_once_a_second_and_follows_the_trades(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        for number in range(8):
            stage.venue.say(batch(trade(number, stage.now_ms)))
            await stage.written(number + 1)
            await stage.clock_beyond(stage.now_ms - 1_000)
    said = await stage.clocks()
    assert all(later > earlier for earlier, later in pairwise(said))
    assert len({ts // 1_000 for ts in said}) == len(said) >= 8
    assert said[-1] <= stage.now_ms - 1_000
    trades = await stage.entries("trade")
    for entry in await stage.entries("feed", "CLOCK"):
        missing = [each for each in trades if place(each.id) > place(entry.fields["upTo"])]
        assert all(int(each.fields["ts"]) > int(entry.fields["ts"]) for each in missing)


async def test_a_disconnect_is_marked_and_the_clock_waits_for_the_mark(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        await stage.clock_beyond(T0)
        left = stage.now_ms
        stage.venue.say(Down(cause="closed", from_ms=left))
        await stage.marks(3)
        silent = await stage.clocks()
        await stage.advance(5_000)
        assert await stage.clocks() == silent
        stage.venue.say(Up(("BTC", "ETH"), stage.now_ms))
        marks = await stage.marks(4)
        assert (int(marks[3]["from"]), marks[3]["cause"]) == (left - 1_000, "closed")
        assert int(marks[3]["to"]) >= left + 5_000
        await stage.clock_beyond(left)
    said = [entry.fields["t"] for entry in await stage.entries("feed")]
    last_mark = len(said) - 1 - said[::-1].index("MARK")
    assert said[:last_mark].count("CLOCK") == len(silent)


async def test_a_silent_market_is_marked_while_the_others_go_on(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.venue.say(Down(cause="silent", from_ms=stage.now_ms, coins=("ETH",)))
        mark = (await stage.marks(3))[2]
        assert (mark["coin"], mark["cause"]) == ("ETH", "silent")
        await stage.clock_beyond(stage.now_ms)
        await stage.clock_beyond(int(mark["to"]))
        later = (await stage.marks(4))[3]
        assert (later["coin"], later["from"]) == ("ETH", mark["to"])
        said = [entry.fields for entry in await stage.entries("feed")]
        reach = 0
        for fields in said[said.index(mark) :]:
            reach = max(reach, int(fields.get("to", 0)))
            assert int(fields["ts"]) <= reach


async def test_a_new_leader_fences_the_old_one_and_marks_what_nobody_watched(stage: Stage) -> None:
    async with stage.term(10) as old:
        await stage.marks(2)
        stage.venue.say(batch(trade(1, T0), trade(2, T0 + 1, "ETH")))
        await stage.written(2)
        vouched = await stage.clock_beyond(T0)
        async with stage.term(11, "failover", up=False):
            mark = (await stage.marks(3))[2]
            stage.venue.say(batch(trade(3, stage.now_ms)))
            with pytest.raises(Fenced):
                await asyncio.wait_for(old, 30)
            await stage.written(3)
    assert (mark["epoch"], mark["cause"]) == ("11", "failover")
    assert vouched <= int(mark["from"]) == max(await stage.clocks())
    last = msgspec.json.decode(mark["last"])
    assert last["BTC|TRADE"].startswith("10.1.")
    assert last["ETH|TRADE"].startswith("10.1.")
    trades = await stage.entries("trade")
    assert [(entry.fields["tid"], entry.fields["epoch"], entry.fields["seq"]) for entry in trades] == [
        ("1", "10", "1"),
        ("2", "10", "1"),
        ("3", "11", "1"),
    ]


async def test_a_new_leader_knows_the_trades_that_the_venue_repeats(stage: Stage) -> None:
    old = [trade(number, T0 + number, "BTC" if number % 3 else "ETH") for number in range(2_500)]
    async with stage.term(10):
        stage.venue.say(batch(*old[:1_500]), batch(*old[1_500:]))
        await stage.written(2_500)
    async with stage.term(11):
        stage.venue.say(batch(*old[-60:], trade(9_999, T0 + 9_999)))
        assert (await stage.written(2_501))[-1] == "9999"
    names = await stage.tids()
    assert len(names) == len(set(names)) == 2_501


async def test_a_clock_is_never_below_what_an_earlier_leader_said(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        await stage.clock_beyond(T0 + 3_000)
    high = max(await stage.clocks())
    stage.venue.now_ms -= 3_000
    async with stage.term(11):
        await stage.marks(4)
        await stage.clock_beyond(high)
    said = await stage.clocks()
    assert said == sorted(set(said))


async def test_a_market_that_joins_later_is_marked_from_the_start_of_the_day(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        await stage.clock_beyond(T0)
    stage.venue.coins = ("BTC", "ETH", "SOL")
    stage.parts = stage.parts_with(stage.settings.with_(ingest={"markets": stage.venue.coins}))
    async with stage.term(11, up=False):
        marks = [codec.decode(fields) for fields in (await stage.marks(5))[2:]]
    new = {mark.coin: mark for mark in marks if isinstance(mark, Mark)}
    assert (new["SOL"].from_ms, new["SOL"].cause) == (DAY_START, "start")
    assert new["BTC"].from_ms > T0


async def test_a_market_that_the_venue_does_not_have_is_left_out(stage: Stage) -> None:
    stage.venue.coins = ("BTC",)
    async with stage.term(10):
        stage.venue.say(batch(trade(1)))
        await stage.written(1)
        found = await until(lambda: stage.store.scan("artery:market:sim:"), "the markets are in the store")
    assert [key for key, _ in found] == ["artery:market:sim:BTC"]


async def test_a_takeover_does_not_wait_for_a_venue_whose_rest_hangs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artery.ingest.symbols.AGAIN_S", 3_600.0)
    async with stage.term(10):
        await until(lambda: stage.store.get("artery:market:sim:ETH"), "the markets are in the store")
        await stage.marks(2)
    stage.venue.markets_hang = True
    async with stage.term(11):
        stage.venue.say(batch(trade(1)))
        assert await stage.written(1) == ["1"]
    assert stage.venue.hung == 0
