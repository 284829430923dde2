"""Order books, thinned."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from artery.ingest.throttle import BookThrottle
from artery.model.events import Book
from tests.ingest.make import T0, book

OFFERS = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 6)), max_size=120)


def run(throttle: BookThrottle, offers: list[tuple[int, int]]) -> list[tuple[float, Book]]:
    """Offer books `(milliseconds after the one before, bid)`, taking what is due as time goes by."""
    sent: list[tuple[float, Book]] = []
    now = 0.0
    for gap, bid in offers:
        until = now + gap
        while (due := throttle.next_ms()) is not None and due <= until:
            sent += [(due, each) for each in throttle.due(due)]
        now = until
        chosen = throttle.offer(book(bid, T0 + int(now)), now)
        if chosen is not None:
            sent.append((now, chosen))
    while (due := throttle.next_ms()) is not None:
        sent += [(due, each) for each in throttle.due(due)]
    return sent


@given(OFFERS, st.sampled_from([1.0, 4.0, 10.0]))
def test_no_market_gets_more_books_than_allowed_and_the_newest_wins(offers: list[tuple[int, int]], rate: float) -> None:
    throttle = BookThrottle(rate)
    sent = run(throttle, offers)
    times = [at for at, _ in sent]
    assert all(later - earlier >= 1_000 / rate for earlier, later in itertools.pairwise(times))
    assert len(sent) + throttle.conflated + throttle.repeated == len(offers)
    if offers:
        assert sent[-1][1].bids == book(offers[-1][1]).bids


@given(OFFERS)
def test_an_unchanged_book_is_repeated_only_after_a_while(offers: list[tuple[int, int]]) -> None:
    sent = run(BookThrottle(10.0, repeat_ms=5_000), [(gap, 7) for gap, _ in offers])
    times = [at for at, _ in sent]
    assert all(later - earlier >= 5_000 for earlier, later in itertools.pairwise(times))


def test_a_book_that_came_back_to_what_was_sent_replaces_the_one_that_waits() -> None:
    throttle = BookThrottle(10.0)
    assert throttle.offer(book(1), 0) is not None
    assert throttle.offer(book(2), 10) is None
    assert throttle.offer(book(1), 20) is None
    assert throttle.due(1_000) == []
    assert (throttle.conflated, throttle.repeated) == (1, 1)


def test_markets_do_not_wait_for_each_other() -> None:
    throttle = BookThrottle(10.0)
    assert throttle.offer(book(1, coin="BTC"), 0) is not None
    assert throttle.offer(book(1, coin="ETH"), 1) is not None
    assert throttle.offer(book(2, coin="BTC"), 2) is None
    assert throttle.next_ms() == 100


def test_a_rate_of_zero_keeps_no_books() -> None:
    throttle = BookThrottle(0.0)
    assert throttle.offer(book(1), 0) is None
    assert throttle.next_ms() is None
