"""One turn of the writer, and the bounded place before it."""

import asyncio

from artery.ingest.clock import FeedClock
from artery.ingest.dedup import Seen
from artery.ingest.intake import OVERFLOW, Intake
from artery.ingest.marks import ALL, Holes, Span
from artery.ingest.throttle import BookThrottle
from artery.ingest.turns import Turns
from artery.providers.base import Down, Up
from tests.ingest.make import T0, batch, book, mids, trade

COINS = ("BTC", "ETH")


def turns() -> Turns:
    return Turns(
        "sim", 5, seen=Seen(), holes=Holes(COINS, 1_000), clock=FeedClock(0, 1_000), throttle=BookThrottle(10.0)
    )


def test_trades_keep_the_venues_order_and_repeats_are_left_out() -> None:
    one = turns()
    turn = one.turn([batch(trade(1), trade(2), book(9), trade(2), mids()), batch(trade(3), trade(1))], [], T0, 0)
    assert [(event.tid, event.seq) for event in turn.trades] == [("1", 1), ("2", 2), ("3", 3)]
    assert turn.repeated == 2
    assert [event.seq for event in turn.books] == [1]
    assert [event.epoch for event in turn.mids] == [5]
    assert one.newest["BTC"] == {"trade_ms": T0, "book_ms": T0}


def test_a_held_back_book_is_sent_in_a_later_turn() -> None:
    one = turns()
    first = one.turn([batch(book(1), book(2), book(3))], [], T0, 0)
    later = one.turn([], [], T0 + 100, 100)
    assert [event.bids[0][0] for event in first.books + later.books] == [1, 3]
    assert [event.seq for event in first.books + later.books] == [1, 2]
    assert one.throttle.conflated == 1


def test_after_a_hole_the_mark_is_there_before_the_clock() -> None:
    one = turns()
    for now in range(T0, T0 + 3_000, 250):
        one.clock.passed(now)
    assert one.tick(T0 + 3_000, "7", None) is not None
    one.turn([Down(cause="closed", from_ms=T0 + 3_000)], [], T0 + 3_100, 0)
    (mark,) = one.marks(T0 + 3_100, "7")
    assert (mark.coin, mark.from_ms, mark.cause, mark.up_to, mark.epoch) == (ALL, T0 + 2_000, "closed", "7", 5)
    for now in range(T0 + 4_000, T0 + 9_000, 250):
        one.clock.passed(now)
        assert one.tick(now, "7", None) is None
    one.turn([Up(COINS, T0 + 9_000)], [], T0 + 9_010, 0)
    (mark,) = one.marks(T0 + 9_010, "8")
    assert mark.to_ms >= T0 + 9_000
    ticks = []
    for now in range(T0 + 9_010, T0 + 12_000, 250):
        one.clock.passed(now)
        ticks.append(one.tick(now, "8", None))
    assert any(ticks)


def test_no_two_marks_of_an_epoch_share_their_time() -> None:
    one = turns()
    one.holes.down(T0, "silent", ("ETH",))
    one.holes.dropped(Span("BTC", T0, T0, OVERFLOW))
    marks = one.marks(T0, "0") + one.marks(T0, "0")
    assert len({mark.ts for mark in marks}) == len(marks) == 2


def test_a_full_intake_leaves_out_the_newest_and_says_which_trades_are_missing() -> None:
    intake = Intake(3)
    intake.put(batch(trade(1), trade(2), at=T0))
    intake.put(batch(trade(3, T0 + 5), trade(4, T0 + 6, "ETH"), at=T0 + 10))
    intake.put(batch(trade(5, T0 + 20), at=T0 + 21))
    intake.put(batch(trade(6, T0 + 30), book(1, T0 + 30), at=T0 + 40))
    assert intake.events == 3
    assert intake.lost == 4
    assert [event.tid for signal in intake.take(100) for event in signal.events] == ["1", "2", "5"]  # type: ignore[union-attr]
    assert set(intake.take_holes()) == {
        Span("BTC", T0 + 5, T0 + 40, OVERFLOW),
        Span("ETH", T0 + 6, T0 + 10, OVERFLOW),
    }
    assert intake.take_holes() == []


def test_up_and_down_always_fit() -> None:
    intake = Intake(1)
    intake.put(batch(trade(1)))
    intake.put(Down(cause="closed", from_ms=T0))
    intake.put(batch(trade(2)))
    intake.put(Up(COINS, T0 + 1))
    assert [type(signal).__name__ for signal in intake.take(100)] == ["Batch", "Down", "Up"]
    assert len(intake.take_holes()) == 1


def test_an_intake_is_taken_in_pieces_and_tells_how_old_its_oldest_is() -> None:
    intake = Intake(100)
    for number in range(10):
        intake.put(batch(trade(2 * number), trade(2 * number + 1), at=T0 + number))
    assert len(intake.take(4)) == 2
    assert (intake.events, intake.oldest_ms()) == (16, T0 + 2)
    intake.take(100)
    assert (intake.events, intake.oldest_ms()) == (0, None)


async def test_waiting_ends_when_something_comes_or_time_is_over() -> None:
    intake = Intake(10)
    await intake.wait(0.001)
    waiting = asyncio.create_task(intake.wait(60))
    await asyncio.sleep(0)
    intake.put(batch(trade(1)))
    async with asyncio.timeout(30):
        await waiting
    assert intake.events == 1
