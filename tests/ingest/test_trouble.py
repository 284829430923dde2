"""A bus that is away, a queue that is full, a venue that gives up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from artery.errors import Fenced, Unavailable
from artery.ingest.feed import first_error
from artery.model import codec
from artery.model.events import Mark
from artery.providers.base import Signal, Up
from tests.ingest.make import T0, batch, book, trade
from tests.ingest.scripted import ScriptedVenue, Stage, until


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Stage]:
    """A feed whose queue holds few events."""
    one = Stage(tmp_path, history_days=0.0, queue_max=50)
    yield one
    await one.close()


async def feed_state(stage: Stage, state: str) -> bool:
    value = await stage.store.get("artery:feed:sim")
    return value is not None and f'"state":"{state}"' in value.decode()


async def test_while_the_disk_is_full_events_wait_and_none_is_lost(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.bus.away = True
        for number in range(500):
            stage.venue.say(batch(trade(number, stage.now_ms + number)))
        await until(lambda: feed_state(stage, "stale"), "the status says that nothing can be written")
        assert await stage.tids() == []
        stage.bus.away = False
        assert await stage.written(500) == [str(number) for number in range(500)]
        await until(lambda: feed_state(stage, "live"), "the status says that all is well")
    seqs = [int(entry.fields["seq"]) for entry in await stage.entries("trade")]
    assert seqs == list(range(1, 501))
    assert len(await stage.marks()) == 2
    published = [message for message in stage.pubsub.messages if message.series == "TRADE"]
    assert len(published) == 500


async def test_what_does_not_fit_while_the_disk_is_full_is_marked(narrow: Stage) -> None:
    async with narrow.term(10):
        await narrow.marks(2)
        narrow.bus.away = True
        for number in range(300):
            narrow.venue.say(batch(trade(number, narrow.now_ms + number, "BTC" if number % 2 else "ETH")))
        await narrow.advance(1_000)

        async def heard() -> bool:
            return narrow.venue.unheard() == 0

        await until(heard, "the feed has heard everything")
        narrow.bus.away = False
        await narrow.written(50)
        narrow.venue.say(batch(trade(999, narrow.now_ms + 999)))

        async def newest() -> bool:
            return "999" in await narrow.tids()

        await until(newest, "the feed goes on")
        marks = [codec.decode(fields) for fields in (await narrow.marks(4))[2:]]
    there = set(await narrow.tids())
    missing = [number for number in range(300) if str(number) not in there]
    assert missing
    for number in missing:
        coin = "BTC" if number % 2 else "ETH"
        assert any(
            isinstance(mark, Mark)
            and mark.cause == "overflow"
            and mark.coin == coin
            and mark.from_ms <= T0 + number <= mark.to_ms
            for mark in marks
        )
    for coin in ("BTC", "ETH"):
        seqs = [int(e.fields["seq"]) for e in await narrow.entries("trade") if e.fields["coin"] == coin]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_an_append_that_was_done_but_not_answered_is_not_done_twice(stage: Stage) -> None:
    async with stage.term(10):
        await stage.marks(2)
        stage.bus.fail_after_writing = 2
        stage.venue.say(batch(trade(1), trade(2), trade(3)), batch(book(1)))
        await stage.written(3)
        stage.venue.say(batch(trade(4)))
        assert await stage.written(4) == ["1", "2", "3", "4"]
        await stage.clock_beyond(T0)
    assert await stage.tids() == ["1", "2", "3", "4"]
    assert len(await stage.entries("book")) == 1
    newest = (await stage.entries("feed", "CLOCK"))[-1]
    assert newest.fields["upTo"] == (await stage.entries("trade"))[-1].id


async def test_a_disk_that_is_full_at_the_takeover_delays_it(stage: Stage) -> None:
    stage.bus.away = True
    loop = asyncio.get_running_loop()
    loop.call_later(0.2, lambda: setattr(stage.bus, "away", False))
    async with stage.term(10):
        stage.venue.say(batch(trade(1)))
        assert await stage.written(1) == ["1"]
        assert {mark["cause"] for mark in await stage.marks(2)} == {"start"}


class QuittingVenue(ScriptedVenue):
    """A venue whose first listener is turned away after one trade."""

    turned_away = False

    async def listen(self, coins: Sequence[str]) -> AsyncIterator[Signal]:
        if self.turned_away:
            async for signal in super().listen(coins):
                yield signal
            return
        self.turned_away = True
        yield Up(self.coins, self.now_ms)
        yield batch(trade(1))
        raise Unavailable("not today")


async def test_a_venue_that_gives_up_is_listened_to_again_and_the_time_between_is_marked(stage: Stage) -> None:
    venue = QuittingVenue(stage.venue.coins)
    stage.venue = venue
    stage.parts = stage.parts_with(stage.settings)
    async with stage.term(10):
        stage.venue.say(batch(trade(1), trade(2)))
        assert await stage.written(2) == ["1", "2"]
        marks = await stage.marks(3)
    assert "unavailable" in {mark["cause"] for mark in marks}


def test_of_several_errors_a_bug_is_reported_first_and_being_fenced_before_what_is_temporary() -> None:
    away, fenced, bug = Unavailable("away"), Fenced("newer"), ZeroDivisionError()
    assert first_error(BaseExceptionGroup("", [away, BaseExceptionGroup("", [fenced])])) is fenced
    assert first_error(BaseExceptionGroup("", [away, fenced, BaseExceptionGroup("", [bug])])) is bug
