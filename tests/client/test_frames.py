"""A client hears every event once, and of every hole."""

from datetime import UTC, datetime
from typing import Any

import pytest

from artery.client.frames import Gap, Tracker, error_of
from artery.client.names import channel, moment
from artery.errors import BadInput, NotAllowed, Unavailable, UnknownChannel
from artery.model import codec
from artery.model.channels import Channel
from artery.model.events import Trade
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
        ("2024-10-27T03:33:20", NOW),
        (datetime(2024, 10, 27, 3, 33, 20, tzinfo=UTC), NOW),
    ],
)
def test_a_moment_may_be_an_age_a_time_or_a_number(when: Any, ms: int) -> None:
    assert moment(when, NOW) == ms


def test_what_is_not_a_moment_is_refused() -> None:
    with pytest.raises(BadInput, match="not a time"):
        moment("yesterday", NOW)
