"""A client hears every event once, and of every hole."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from artery.client.frames import Gap, Tracker, error_of
from artery.client.names import channel, moment, series, starts, types_of
from artery.errors import BadInput, NotAllowed, Unavailable, UnknownChannel
from artery.model import codec
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from tests.gateway.made import book
from tests.model.strategies import small_trade

NOW = 1_730_000_000_000


def frame(seq: int) -> dict[str, Any]:
    trade = small_trade(seq, seq, 100 + seq, 1, seq=seq)
    return {
        "type": "event",
        "channel": str(trade.channel),
        "series": trade.series,
        "position": str(trade.position),
        "data": codec.encode(trade),
    }


def test_events_pass_once_and_in_order() -> None:
    tracker = Tracker()
    items = [item for seq in (1, 2, 3) for item in tracker.take(frame(seq))]
    assert [item.seq for item in items if isinstance(item, Trade)] == [1, 2, 3]
    assert len(items) == 3


def test_what_is_sent_again_after_a_reconnect_is_not_seen_twice() -> None:
    tracker = Tracker()
    items = [item for seq in (1, 2, 2, 1, 3) for item in tracker.take(frame(seq))]
    assert [item.seq for item in items if isinstance(item, Trade)] == [1, 2, 3]


def test_a_hole_that_nobody_mentioned_is_a_gap() -> None:
    tracker = Tracker()
    _, gap, event = [item for seq in (1, 5) for item in tracker.take(frame(seq))]
    assert isinstance(gap, Gap)
    assert (gap.series, gap.reason, gap.from_position[:3], gap.to_position[:3]) == ("TRADE", "missed", "1.1", "1.5")
    assert isinstance(event, Trade)


def test_a_hole_that_the_gateway_mentioned_is_said_once() -> None:
    tracker = Tracker()
    list(tracker.take(frame(1)))
    said = {
        "type": "gap",
        "channel": "artery:stream:sim:BTC",
        "series": "TRADE",
        "from": frame(1)["position"],
        "to": frame(4)["position"],
        "from_ms": 1,
        "to_ms": 2,
        "reason": "slow_client",
    }
    items = [*tracker.take(said), *tracker.take(frame(5))]
    assert [type(item).__name__ for item in items] == ["Gap", "Trade"]


@pytest.mark.parametrize("to", ["", "1.2.1000"])
def test_behind_a_gap_that_leads_back_a_log_that_began_anew_is_heard(to: str) -> None:
    tracker = Tracker()
    list(tracker.take(frame(9)))
    said = {"type": "gap", "channel": "artery:stream:sim:BTC", "series": "TRADE", "reason": "trimmed"}
    ends = {"from": frame(9)["position"], "to": to, "from_ms": 1, "to_ms": 2}
    items = [item for each in (said | ends, frame(3), frame(4), frame(4)) for item in tracker.take(each)]
    assert [item.seq for item in items if isinstance(item, Trade)] == [3, 4]
    assert sum(isinstance(item, Gap) for item in items) == 1


def test_books_of_a_log_that_began_anew_are_heard() -> None:
    tracker, channel = Tracker(), "artery:stream:sim:BTC"
    done = {"type": "replay_complete", "channel": channel, "series": "BOOK_TOPN"}
    for seq in (9, 2):
        list(tracker.take(done | {"position": f"1.{seq}.{NOW}"}))
        made = {"channel": channel, "series": "BOOK_TOPN", "data": codec.encode(book(seq + 1))}
        assert len(list(tracker.take({"type": "event", "position": f"1.{seq + 1}.{NOW}"} | made))) == 1


def test_a_change_of_leaders_forgets_no_place() -> None:
    tracker = Tracker()
    list(tracker.take(frame(9)))
    said = {"type": "gap", "channel": "artery:stream:sim:BTC", "series": "TRADE", "reason": "failover"}
    list(tracker.take(said | {"from": frame(9)["position"], "to": ""}))
    assert list(tracker.take(frame(9))) == []


def test_coming_back_asks_for_what_follows_the_last_event() -> None:
    tracker = Tracker()
    assert tracker.since() is None
    list(tracker.take(frame(7)))
    assert tracker.since() == {"positions": {"TRADE": frame(7)["position"]}}


def test_an_error_frame_is_raised_as_what_it_is() -> None:
    with pytest.raises(UnknownChannel, match="no such"):
        list(Tracker().take({"type": "error", "code": "unknown_channel", "message": "no such"}))
    assert isinstance(error_of({"code": "unauthenticated", "message": "x"}), NotAllowed)
    assert isinstance(error_of({"code": "internal"}), Unavailable)


@pytest.mark.parametrize("name", ["sim:BTC", "SIM:BTC", "artery:stream:sim:BTC"])
def test_a_market_may_be_named_in_three_ways(name: str) -> None:
    assert channel(name) == Channel("sim", "BTC")


@pytest.mark.parametrize(
    ("when", "ms"),
    [
        ("2h", NOW - 7_200_000),
        (5, 5),
        (5.9, 5),
        (np.int64(NOW), NOW),
        ("2024-10-27T03:33:20", NOW),
        (datetime(2024, 10, 27, 3, 33, 20, tzinfo=UTC), NOW),
    ],
)
def test_a_moment_may_be_an_age_a_time_or_a_number(when: Any, ms: int) -> None:
    assert moment(when, NOW) == ms


def test_what_is_not_a_moment_is_refused() -> None:
    for wrong in ("yesterday", None, float("nan"), [5]):
        with pytest.raises(BadInput, match="not a time"):
            moment(wrong, NOW)  # type: ignore[arg-type]


def test_a_single_type_needs_no_list() -> None:
    assert types_of("TRADE") == types_of(["TRADE"]) == ["TRADE"]
    assert types_of(()) == []


def subscribed(number: int, **positions: str) -> dict[str, Any]:
    channels = [{"channel": "artery:stream:sim:BTC", "positions": positions}]
    return {"type": "subscribed", "id": str(number), "channels": channels}


def asked(tracker: Tracker) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(tracker.ask(Channel("sim", "BTC"), ["TRADE"]))
    return frame


def test_a_first_cut_loses_nothing_of_what_was_live() -> None:
    tracker = Tracker()
    assert "since" not in asked(tracker)["channels"][0]
    list(tracker.take(subscribed(1, TRADE="1.4.9")))
    assert asked(tracker)["channels"][0]["since"] == {"positions": {"TRADE": "1.4.9"}}


def test_a_series_that_was_not_seen_yet_is_asked_for_from_where_it_begins() -> None:
    tracker = Tracker({"TRADE": "0.0.5", "CANDLE:1m": "0.0.5"})
    asked(tracker)
    list(tracker.take(subscribed(1, TRADE="1.4.9")))
    list(tracker.take(frame(2)))
    assert tracker.since() == {"positions": {"TRADE": frame(2)["position"], "CANDLE:1m": "0.0.5"}}


def test_what_an_older_request_brings_is_passed_over_once_a_newer_was_made() -> None:
    tracker = Tracker({"TRADE": "0.0.5"})
    asked(tracker)
    list(tracker.take(subscribed(1)))
    list(tracker.take(frame(1)))
    more = {"type": "gap", "channel": "artery:stream:sim:BTC", "series": "TRADE", "resume": frame(1)["position"]}
    assert tracker.more(more)
    assert asked(tracker)["channels"][0]["since"] == {"positions": {"TRADE": frame(1)["position"]}}
    assert not tracker.more(more)
    assert list(tracker.take(frame(9))) == []
    list(tracker.take(subscribed(2)))
    assert [item.seq for item in tracker.take(frame(2)) if isinstance(item, Trade)] == [2]


def test_a_long_past_of_candles_goes_on_from_the_time_that_the_gateway_says() -> None:
    tracker = Tracker({"CANDLE:1m": "0.0.5", "TRADE": "0.0.5"})
    asked(tracker)
    list(tracker.take(subscribed(1)))
    list(tracker.take(candle_frame(True, 0, 6)))
    more = {"type": "gap", "channel": "artery:stream:sim:BTC", "series": "CANDLE:1m", "resume": "0.0.60000"}
    assert tracker.more(more)
    assert asked(tracker)["channels"][0]["since"] == {"positions": {"TRADE": "0.0.5", "CANDLE:1m": "0.0.60000"}}
    list(tracker.take(subscribed(2)))
    done = {"type": "replay_complete", "series": "CANDLE:1m", "position": "1.8.9"}
    assert list(tracker.take(done)) == []
    assert tracker.since() == {"positions": {"TRADE": "0.0.5", "CANDLE:1m": "1.8.9"}}


def test_a_candle_comes_once_in_each_version_and_never_in_an_older_one() -> None:
    tracker = Tracker()
    made = [(False, 0, 5), (True, 0, 6), (True, 0, 6), (False, 0, 7), (True, 1, 8)]
    seen = [item for closed, rev, at in made for item in tracker.take(candle_frame(closed, rev, at))]
    assert [(item.closed, item.rev, item.event_ts) for item in seen if isinstance(item, Candle)] == [
        (False, 0, 5), (True, 0, 6), (True, 1, 8)
    ]  # fmt: skip


def candle_frame(closed: bool, rev: int, at: int) -> dict[str, Any]:
    one = Decimal(1)
    made = Candle(
        provider="sim", coin="BTC", event_ts=at, period=Period(60), start_ts=60_000, o=one, h=one, l=one, c=one, v=one,
        closed=closed, rev=rev,
    )  # fmt: skip
    return {"type": "event", "series": made.series, "position": "", "data": codec.encode(made)}


def test_a_position_belongs_to_one_series() -> None:
    assert starts("1.2.3", ["TRADE"], NOW) == {"TRADE": "1.2.3"}
    assert starts("2h", ["TRADE", "CANDLE:1m"], NOW) == dict.fromkeys(["TRADE", "CANDLE:1m"], f"0.0.{NOW - 7_200_000}")
    assert starts({"TRADE": "1.2.3", "OTHER": "9"}, ["TRADE", "BOOK_TOPN"], NOW) == {"TRADE": "1.2.3"}
    with pytest.raises(BadInput):
        starts("1.2.3", ["TRADE", "BOOK_TOPN"], NOW)
    assert series(Channel("sim", "*"), []) == ["MIDS"]
    assert series(Channel("sim", "BTC"), ["CANDLE:60s"]) == ["CANDLE:1m"]
