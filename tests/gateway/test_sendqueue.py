"""What waits for a slow client is bounded, in order, and never lies about what was left out."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from artery.gateway import frames
from artery.gateway.frames import Frame
from artery.gateway.limits import Limits
from artery.gateway.sendqueue import SendQueue
from tests.gateway.made import BTC, book, candle, message, trade

SMALL = Limits(queue_events=8, queue_bytes=1024 * 1024, control_frames=4)
EVERYTHING = 2**30


def read(wire: bytes) -> list[dict[str, Any]]:
    """The JSON of each text frame in these bytes."""
    found = []
    while wire:
        assert wire[0] == 0x81
        size, at = wire[1], 2
        if size == 126:
            size, at = int.from_bytes(wire[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(wire[2:10], "big"), 10
        found.append(json.loads(wire[at : at + size]))
        wire = wire[at + size :]
    return found


def trades(*seqs: int) -> list[Frame]:
    return [frames.event(message(trade(seq))) for seq in seqs]


def books(*seqs: int) -> list[Frame]:
    return [frames.event(message(book(seq))) for seq in seqs]


def seqs(found: list[dict[str, Any]], series: str) -> list[int]:
    return [int(item["data"]["seq"]) for item in found if item["type"] == "event" and item["series"] == series]


def test_events_come_out_as_they_went_in() -> None:
    queue = SendQueue(SMALL)
    assert all(queue.push(frame) for frame in trades(1, 2, 3))
    assert seqs(read(queue.take(EVERYTHING)), "TRADE") == [1, 2, 3]
    assert not queue
    assert queue.size_bytes == 0


def test_answers_go_before_events() -> None:
    queue = SendQueue(SMALL)
    queue.push(trades(1)[0])
    queue.say(frames.text(b'{"type":"pong"}'))
    assert [item["type"] for item in read(queue.take(EVERYTHING))] == ["pong", "event"]


def test_a_full_lane_keeps_the_newest_book_and_says_what_it_left_out() -> None:
    queue = SendQueue(SMALL)
    assert all(queue.push(frame) for frame in books(*range(1, 21)))
    found = read(queue.take(EVERYTHING))
    gap = next(item for item in found if item["type"] == "gap")
    assert gap["reason"] == "slow_client"
    assert found[-1]["data"]["seq"] == "20"
    assert gap["to"].split(".")[1] == "19"
    missing = range(int(gap["from"].split(".")[1]) + 1, 20)
    assert sorted([*seqs(found, "BOOK_TOPN"), *missing]) == list(range(1, 21))


def test_books_make_room_for_trades() -> None:
    queue = SendQueue(SMALL)
    assert all(queue.push(frame) for frame in [*books(1, 2, 3, 4, 5, 6, 7, 8), *trades(1, 2, 3)])
    found = read(queue.take(EVERYTHING))
    assert seqs(found, "TRADE") == [1, 2, 3]
    assert seqs(found, "BOOK_TOPN") == [8]


def test_too_many_trades_mean_that_the_client_is_too_slow() -> None:
    queue = SendQueue(SMALL)
    assert all(queue.push(frame) for frame in trades(*range(1, 9)))
    assert not queue.push(trades(9)[0])


def test_a_closed_candle_is_not_replaced_by_an_open_one() -> None:
    queue = SendQueue(SMALL)
    candles = [candle(minute, seq=minute + 1, closed=minute % 2 == 0) for minute in range(12)]
    pushed = [queue.push(frames.event(message(c), snapshot=not c.closed)) for c in candles]
    assert all(pushed)
    found = read(queue.take(EVERYTHING))
    assert [int(item["data"]["seq"]) for item in found if item.get("data", {}).get("isClosed") == "true"] == [
        1, 3, 5, 7, 9, 11
    ]  # fmt: skip


def test_bytes_are_bounded_too() -> None:
    frame = trades(1)[0]
    queue = SendQueue(Limits(queue_bytes=len(frame.wire) * 3))
    assert [queue.push(frame) for _ in range(4)] == [True, True, True, False]


def test_old_pongs_are_shed_first_and_then_the_client_is_too_slow() -> None:
    queue = SendQueue(SMALL)
    said = [queue.say(frames.text(b'{"n":%d}' % n), stale=n < 2) for n in range(6)]
    assert said == [True] * 6
    assert not queue.say(frames.text(b'{"n":6}'))
    assert [item["n"] for item in read(queue.take(EVERYTHING))] == [2, 3, 4, 5]


def test_what_waits_of_a_channel_that_was_left_is_dropped() -> None:
    queue = SendQueue(SMALL)
    for frame in [*trades(1, 2), frames.event(message(trade(1, coin="ETH")))]:
        queue.push(frame)
    queue.forget(BTC)
    assert [item["channel"] for item in read(queue.take(EVERYTHING))] == ["artery:stream:sim:ETH"]


def test_series_that_are_asked_for_anew_make_way_and_others_stay() -> None:
    queue = SendQueue(SMALL)
    for frame in [*trades(1, 2), *books(1)]:
        queue.push(frame)
    queue.forget(BTC, {"TRADE": "1.1.1"})
    assert [item["series"] for item in read(queue.take(EVERYTHING))] == ["BOOK_TOPN"]
    assert (len(queue), queue.size_bytes) == (0, 0)


def test_it_is_taken_in_pieces() -> None:
    queue = SendQueue(SMALL)
    for frame in trades(1, 2, 3):
        queue.push(frame)
    pieces = []
    while queue:
        pieces.append(read(queue.take(1)))
    assert [len(piece) for piece in pieces] == [1, 1, 1]


@given(st.lists(st.sampled_from(["trade", "book", "eth", "take", "say", "leave"]), max_size=120))
def test_whatever_happens_it_stays_bounded_and_holes_are_said(steps: list[str]) -> None:
    queue = SendQueue(SMALL)
    seq = {"trade": 0, "book": 0, "eth": 0}
    seen: list[dict[str, Any]] = []
    for step in steps:
        if step == "take":
            seen += read(queue.take(300))
        elif step == "say":
            queue.say(frames.text(b'{"type":"pong"}'), stale=True)
        elif step == "leave":
            queue.forget("artery:stream:sim:XRP")
        else:
            seq[step] += 1
            coin = "ETH" if step == "eth" else "BTC"
            event = trade(seq[step]) if step == "trade" else book(seq[step], coin=coin)
            if not queue.push(frames.event(message(event))):
                return  # the client is closed
        assert len(queue) <= SMALL.queue_events + SMALL.control_frames
    seen += read(queue.take(EVERYTHING))
    assert seqs(seen, "TRADE") == list(range(1, seq["trade"] + 1))
    for name, channel in (("book", BTC), ("eth", "artery:stream:sim:ETH")):
        last = 0
        for item in [item for item in seen if item.get("channel") == channel and item["series"] == "BOOK_TOPN"]:
            if item["type"] == "gap":
                assert int(item["from"].split(".")[1]) == last
                last = int(item["to"].split(".")[1])
            else:
                assert int(item["data"]["seq"]) == last + 1
                last += 1
        assert last == seq[name]
    assert queue.size_bytes == 0
