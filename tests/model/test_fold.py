"""The candle of some trades is the same in any order, with any duplication, in any split."""

import random
from decimal import Decimal
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from artery.model import fold
from artery.model.events import Trade
from artery.model.periods import Period
from tests.model.strategies import small_trade

MINUTE = Period.parse("1m")
some_trades = st.lists(
    st.tuples(st.integers(0, 2_000), st.integers(1, 50), st.integers(1, 9), st.sampled_from(["BTC", "ETH"])),
    min_size=1,
    max_size=40,
).map(lambda rows: [small_trade(s, i, px, sz, coin) for i, (s, px, sz, coin) in enumerate(rows)])


@given(some_trades, st.randoms(use_true_random=False))
def test_order_and_duplication_do_not_change_the_candles(trades: list[Trade], shuffle: random.Random) -> None:
    mixed = trades + shuffle.choices(trades, k=len(trades))
    shuffle.shuffle(mixed)
    assert fold.bars(mixed, MINUTE) == fold.bars(trades, MINUTE)


@given(some_trades, st.randoms(use_true_random=False))
def test_bars_join_in_any_split_and_order(trades: list[Trade], shuffle: random.Random) -> None:
    one_market = [trade for trade in trades if trade.coin == trades[0].coin]
    bars = [fold.bar(trade) for trade in one_market]
    whole = reduce(fold.join, bars)
    while len(bars) > 1:
        shuffle.shuffle(bars)
        bars.append(fold.join(bars.pop(), bars.pop()))
    assert bars == [whole]


def test_open_and_close_are_the_first_and_last_trade_by_time_then_place() -> None:
    trades = [small_trade(5, 3, 30, 1), small_trade(1, 1, 10, 2), small_trade(5, 4, 40, 1), small_trade(1, 0, 5, 1)]
    (bar,) = fold.bars(trades, MINUTE).values()
    assert (bar.o, bar.h, bar.l, bar.c, bar.v, bar.n) == (5, 40, 5, 40, 5, 4)


def test_a_larger_period_is_the_join_of_the_smaller_ones() -> None:
    trades = [small_trade(i * 7, i, 50 + i % 13, 1 + i % 3) for i in range(500)]
    minutes = fold.bars(trades, MINUTE)
    (hour,) = fold.bars(trades, Period.parse("1d")).values()
    assert reduce(fold.join, minutes.values()) == hour


def test_sums_are_exact() -> None:
    tiny = [
        Trade(provider="sim", event_ts=1, epoch=1, seq=i + 1, coin="BTC", ts=1, tid=str(i),
              px=Decimal("0.1"), sz=Decimal("0.1"), side="S")
        for i in range(10)
    ]  # fmt: skip
    (bar,) = fold.bars(tiny, MINUTE).values()
    assert bar.v == Decimal(1)
