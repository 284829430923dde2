"""Places in a series, and trades that a venue repeats."""

from hypothesis import given
from hypothesis import strategies as st

from artery.ingest.dedup import Seen
from artery.ingest.stamp import Stamper
from tests.ingest.make import T0, book, mids, trade

COINS = st.sampled_from(["BTC", "ETH", "SOL"])


@given(st.lists(COINS))
def test_each_series_counts_from_one_without_a_gap(coins: list[str]) -> None:
    stamper = Stamper(7)
    stamped = [stamper.trade(trade(number, coin=coin)) for number, coin in enumerate(coins)]
    for coin in set(coins):
        seqs = [event.seq for event in stamped if event.coin == coin]
        assert seqs == list(range(1, len(seqs) + 1))
    assert {event.epoch for event in stamped} <= {7}


def test_trades_books_and_mids_of_a_market_are_counted_apart() -> None:
    stamper = Stamper(3)
    assert stamper.trade(trade(1)).seq == 1
    assert stamper.book(book(100)).seq == 1
    assert stamper.trade(trade(2)).seq == 2
    assert stamper.mids(mids()).seq == 1
    assert stamper.mids(mids()).position.epoch == 3


@given(st.lists(st.tuples(COINS, st.integers(0, 20), st.integers(0, 5)), max_size=200))
def test_a_trade_is_new_exactly_once(names: list[tuple[str, int, int]]) -> None:
    seen = Seen()
    new = [name for name in names if seen.is_new(trade(name[2], T0 + name[1], name[0]))]
    assert len(new) == len(set(new))
    assert set(new) == set(names)


def test_the_same_id_at_another_time_or_market_is_another_trade() -> None:
    seen = Seen()
    assert seen.is_new(trade(1, T0))
    assert seen.is_new(trade(1, T0 + 1))
    assert seen.is_new(trade(1, T0, "ETH"))
    assert not seen.is_new(trade(1, T0))


@given(st.integers(1, 60), st.integers(1, 300))
def test_memory_is_bounded_by_number(at_most: int, count: int) -> None:
    seen = Seen(keep_ms=10**9, keep_at_least=1, keep_at_most=at_most)
    for number in range(count):
        assert seen.is_new(trade(number, T0 + number))
    assert seen.count("BTC") == min(at_most, count)
    assert not seen.is_new(trade(0, T0))  # forgotten or not, it is known to be old


def test_memory_is_bounded_by_time_but_a_quiet_market_keeps_its_last_trades() -> None:
    seen = Seen(keep_ms=1_000, keep_at_least=5, keep_at_most=100)
    for number in range(20):
        seen.is_new(trade(number, T0 + number))
    assert seen.count("BTC") == 20
    seen.is_new(trade(99, T0 + 3_600_000))
    assert seen.count("BTC") == 5
    assert not seen.is_new(trade(19, T0 + 19))


def test_what_the_bus_holds_is_not_new_and_neither_is_what_is_older_than_was_read() -> None:
    seen = Seen(T0 - 1)
    seen.seed("BTC", [(T0, "1"), (T0 + 5, "2")])
    assert not seen.is_new(trade(1, T0))
    assert not seen.is_new(trade(2, T0 + 5))
    assert not seen.is_new(trade(3, T0 - 1))
    assert not seen.is_new(trade(3, T0 - 1, "ETH"))
    assert seen.is_new(trade(4, T0))
    assert seen.is_new(trade(5, T0 + 6))
