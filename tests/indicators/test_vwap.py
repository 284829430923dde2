"""VWAP: exact sums since midnight, whatever the order of trades, and bounded in size."""

import random
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.indicators.vwap import DAY_MS, HOUR_MS, MINUTE_MS, State, Vwap, has_vwap
from artery.model.periods import DERIVED, Period

DAY = 1_730_073_600_000
Trade = tuple[int, Decimal, Decimal]


def trades(count: int, *, seed: int = 1, span_ms: int = HOUR_MS) -> list[Trade]:
    chance = random.Random(seed)
    return [
        (
            DAY + chance.randrange(span_ms),
            Decimal(f"{chance.randrange(1, 10**6)}.{chance.randrange(10**18):018d}"),
            Decimal(f"0.{chance.randrange(1, 10**18):018d}"),
        )
        for _ in range(count)
    ]


def exact(made: list[Trade], start: int, end: int) -> float:
    """The same from fractions, which never round."""
    inside = [(Fraction(px), Fraction(sz)) for ts, px, sz in made if start - start % DAY_MS <= ts < end]
    return float(sum(px * sz for px, sz in inside) / sum(sz for _, sz in inside))


def filled(made: list[Trade]) -> Vwap:
    vwap = Vwap()
    for trade in made:
        vwap.add(*trade)
    return vwap


def test_it_is_the_exact_quotient_at_every_end_of_a_candle() -> None:
    made = sorted(trades(500))
    vwap = filled(made)
    for minute in range(1, 61):
        start, end = DAY + (minute - 1) * MINUTE_MS, DAY + minute * MINUTE_MS
        assert vwap.at(start, end) == exact(made, start, end)


@settings(max_examples=100, deadline=None)
@given(st.permutations(trades(12)), st.integers(0, 12))
def test_order_and_splits_do_not_change_a_bit(made: list[Trade], split: int) -> None:
    vwap = filled(made[:split])
    vwap = Vwap(msgspec.json.decode(msgspec.json.encode(vwap.state()), type=State))
    for trade in made[split:]:
        vwap.add(*trade)
    assert vwap.at(DAY, DAY + DAY_MS) == exact(made, DAY, DAY + DAY_MS)


def test_a_day_is_kept_by_the_hour_and_the_newest_two_hours_by_the_minute() -> None:
    made = sorted(trades(3_000, span_ms=2 * DAY_MS))
    vwap = filled(made)
    assert len(vwap.state().sums) <= 48 + 3 * 60
    newest = made[-1][0]
    for hour in range(1, 49):
        end = DAY + hour * HOUR_MS
        assert vwap.at(end - HOUR_MS, end) == exact(made, end - HOUR_MS, end)
    minute = newest - newest % MINUTE_MS - 60 * MINUTE_MS
    assert vwap.at(minute - MINUTE_MS, minute) == exact(made, minute - MINUTE_MS, minute)
    assert vwap.at(DAY + HOUR_MS, DAY + HOUR_MS + MINUTE_MS) is None


def test_a_trade_dated_ahead_of_its_time_leaves_the_others_their_minutes() -> None:
    made = sorted(trades(50))
    vwap = filled(made)
    vwap.add(DAY + 23 * HOUR_MS, Decimal(1), Decimal(1), DAY + HOUR_MS)
    late = (DAY + 30 * MINUTE_MS, Decimal(3), Decimal(5))
    vwap.add(*late, DAY + HOUR_MS)
    end = DAY + 31 * MINUTE_MS
    assert vwap.at(end - MINUTE_MS, end) == exact([*made, late], end - MINUTE_MS, end)


def test_it_begins_anew_at_midnight_and_forgets_what_is_older_than_yesterday() -> None:
    one = Decimal(1)
    vwap = filled(
        [(DAY, Decimal(5), one), (DAY + DAY_MS, Decimal(7), one), (DAY + 2 * DAY_MS + 3 * HOUR_MS, Decimal(9), one)]
    )
    assert vwap.at(DAY, DAY + DAY_MS) is None
    assert vwap.at(DAY + DAY_MS, DAY + 2 * DAY_MS) == 7.0
    assert vwap.at(DAY + 2 * DAY_MS, DAY + 3 * DAY_MS) == 9.0
    vwap.add(DAY + 1, Decimal(1), one)
    assert vwap.at(DAY, DAY + DAY_MS) is None
    assert vwap.at(DAY + 2 * DAY_MS, DAY + 2 * DAY_MS + MINUTE_MS) is None


@pytest.mark.parametrize(
    ("text", "has"), [("1m", True), ("90m", True), ("1d", True), ("7h", False), ("5s", False), ("2d", False)]
)
def test_candles_that_divide_a_day_into_minutes_have_one(text: str, has: bool) -> None:
    assert has_vwap(Period.parse(text)) is has
    assert all(has_vwap(period) for period in DERIVED)
