"""Holes: from takeovers, disconnects and overflow."""

from hypothesis import given
from hypothesis import strategies as st

from artery.ingest.marks import ALL, WATCHED, Holes, Span, inherited, joined, watched
from tests.ingest.make import T0

COINS = ("BTC", "ETH", "SOL")
GRACE = 1_000
DAY_START = T0 // 86_400_000 * 86_400_000


def covered(spans: list[Span], coin: str, ms: int) -> bool:
    return any(span.coin in (ALL, coin) and span.from_ms <= ms <= span.to_ms for span in spans)


def test_at_the_very_first_start_the_day_so_far_is_not_vouched_for() -> None:
    assert inherited(COINS, None, None, T0, "restart") == [Span(ALL, DAY_START, T0, "start")]


def test_a_later_leader_cannot_vouch_for_what_followed_the_last_clock() -> None:
    spans = inherited(COINS, dict.fromkeys(COINS, WATCHED), T0 - 5_000, T0, "failover")
    assert spans == [Span(ALL, T0 - 5_000, T0, "failover")]


def test_a_market_that_was_not_watched_before_has_a_longer_hole() -> None:
    before = {"BTC": WATCHED, "ETH": T0 - 7 * 86_400_000}
    spans = inherited(COINS, before, T0 - 5_000, T0, "restart")
    assert set(spans) == {
        Span("BTC", T0 - 5_000, T0, "restart"),
        Span("ETH", T0 - 7 * 86_400_000, T0, "restart"),
        Span("SOL", DAY_START, T0, "start"),
    }


def test_a_clock_from_the_future_makes_no_hole_that_ends_before_it_begins() -> None:
    (span,) = inherited(COINS, None, T0 + 3_600_000, T0, "restart")
    assert span.from_ms <= span.to_ms == T0


def test_a_market_that_is_left_out_is_remembered_with_the_last_time_it_was_vouched_for() -> None:
    after = watched(("BTC",), {"BTC": WATCHED, "ETH": WATCHED, "SOL": 5}, T0)
    assert after == {"BTC": WATCHED, "ETH": T0, "SOL": 5}
    assert watched(("BTC",), {"ETH": WATCHED}, None)["ETH"] != WATCHED


def test_a_takeover_is_said_at_once_and_again_when_the_venue_is_up() -> None:
    holes = Holes(COINS, GRACE)
    holes.inherit([Span(ALL, T0 - 5_000, T0, "failover")])
    assert not holes.up
    assert holes.to_say(T0) == [Span(ALL, T0 - 5_000, T0, "failover")]
    assert holes.to_say(T0 + 500) == []
    holes.came_up(T0 + 900, COINS)
    assert holes.up
    assert holes.to_say(T0 + 901) == [Span(ALL, T0 - 5_000, T0 + 900 + GRACE, "failover")]
    assert holes.to_say(T0 + 2_000) == []


def test_a_disconnect_is_a_hole_from_before_it_was_noticed_to_after_it_ended() -> None:
    holes = Holes(COINS, GRACE)
    assert holes.up
    assert holes.down(T0, "closed") == list(COINS)
    assert holes.down(T0 + 10, "again") == []
    assert holes.to_say(T0 + 100) == [Span(ALL, T0 - GRACE, T0 + 100, "closed")]
    holes.came_up(T0 + 4_000)
    assert holes.to_say(T0 + 4_001) == [Span(ALL, T0 - GRACE, T0 + 4_000 + GRACE, "closed")]


def test_a_hole_of_one_market_is_said_ahead_as_the_clock_goes_on() -> None:
    holes = Holes(COINS, GRACE)
    holes.down(T0, "silent", ("ETH",))
    assert holes.up
    assert holes.is_open("ETH")
    said = []
    for now in range(T0, T0 + 200_000, 1_000):
        said += holes.to_say(now)
        assert covered(said, "ETH", now)
        assert not covered(said, "BTC", now)
    assert len(said) <= 10
    holes.came_up(T0 + 200_000, ("ETH",))
    said += holes.to_say(T0 + 200_000)
    assert covered(said, "ETH", T0 + 200_000)
    assert holes.to_say(T0 + 400_000) == []


def test_dropped_trades_are_a_hole_though_the_feed_is_up() -> None:
    holes = Holes(COINS, GRACE)
    holes.dropped(Span("ETH", T0, T0 + 50, "overflow"))
    assert holes.up
    assert holes.to_say(T0 + 60) == [Span("ETH", T0 - GRACE, T0 + 50, "overflow")]


def test_spans_that_all_markets_share_are_one() -> None:
    spans = [Span(coin, 1, 2, "x") for coin in COINS] + [Span("BTC", 3, 4, "x")]
    assert joined(spans, COINS) == [Span(ALL, 1, 2, "x"), Span("BTC", 3, 4, "x")]


STEPS = st.lists(
    st.tuples(st.integers(1, 30_000), st.sampled_from(["down", "up", "say"]), st.sets(st.sampled_from(COINS))),
    max_size=60,
)


@given(STEPS)
def test_every_moment_in_which_a_market_was_not_watched_is_said(steps: list[tuple[int, str, set[str]]]) -> None:
    holes = Holes(COINS, GRACE)
    since: dict[str, int] = {}
    gaps: list[tuple[str, int, int]] = []
    said: list[Span] = []
    now = T0
    for step, what, some in steps:
        now += step
        coins = tuple(sorted(some)) or COINS
        if what == "down":
            holes.down(now, "x", tuple(sorted(some)))
            for coin in coins:
                since.setdefault(coin, now)
        elif what == "up":
            holes.came_up(now, tuple(sorted(some)))
            gaps += [(coin, since.pop(coin), now) for coin in coins if coin in since]
        said += holes.to_say(now)
        if holes.up:  # a clock may follow: what is open must be said up to now
            assert all(covered(said, coin, now) for coin in since)
    for coin, begin, end in gaps:
        assert all(covered(said, coin, ms) for ms in (begin, (begin + end) // 2, end))
