"""The simulated market: the same for the same seed, and its candles are exactly its trades."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from artery.errors import BadSetting
from artery.model import fold
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.providers.hyperliquid_rest import read_candles
from artery.providers.sim import frames
from artery.providers.sim.answers import info
from artery.providers.sim.book import book
from artery.providers.sim.candles import INTERVALS, candles
from artery.providers.sim.listing import BY_COIN, LISTINGS, Listing, text
from artery.providers.sim.market import SimMarket
from artery.providers.sim.minutes import MINUTE_MS
from tests.providers.venue import parse_trades

NOW = 1_794_855_583_378  # in the middle of a minute
BTC, XRP = BY_COIN["BTC"], BY_COIN["XRP"]


def trades(market: SimMarket, coin: str, start_ms: int, end_ms: int) -> list[Trade]:
    """The venue's trades as Artery reads them, with their order as their place."""
    prints = market.trades(BY_COIN[coin], start_ms - 1, end_ms - 1)
    return list(placed(parse_trades(frames.trades(BY_COIN[coin], prints))))


def placed(rows: list[Trade]) -> Iterator[Trade]:
    for number, trade in enumerate(rows):
        yield msgspec.structs.replace(trade, event_ts=trade.ts, epoch=1, seq=number + 1)


def folded(rows: list[Trade], period: Period, now_ms: int) -> list[Candle]:
    bars = fold.bars(rows, period)
    return [
        fold.candle(key, period, bars[key], event_ts=now_ms, closed=key[2] + period.ms <= now_ms)
        for key in sorted(bars)
    ]


def asked(market: SimMarket, coin: str, interval: str, start_ms: int, end_ms: int, now_ms: int) -> list[Candle]:
    """The venue's candles as Artery reads them from REST."""
    request = {"coin": coin, "interval": interval, "startTime": start_ms, "endTime": end_ms - 1}
    body = msgspec.json.encode({"type": "candleSnapshot", "req": request})
    status, answer = info(market, body, now_ms)
    assert status == 200
    found, _, bad = read_candles(answer, "sim", now_ms)
    assert bad == 0
    return found


@pytest.mark.parametrize(("rate", "coin"), [(30.0, "BTC"), (30.0, "DOGE"), (0.3, "XRP"), (2.0, "HYPE"), (400.0, "ETH")])
def test_the_candle_of_a_minute_is_the_fold_of_its_trades(rate: float, coin: str) -> None:
    market = SimMarket(7, rate)
    end = NOW - NOW % MINUTE_MS
    start = end - (2 if rate > 100 else 25) * MINUTE_MS
    rows = trades(market, coin, start, end)
    assert rows
    assert asked(market, coin, "1m", start, end, NOW) == folded(rows, Period(60), NOW)


@pytest.mark.parametrize("interval", ["5m", "15m", "1h", "4h", "1d"])
def test_longer_candles_are_the_fold_of_their_trades_up_to_this_moment(interval: str) -> None:
    market, period = SimMarket(3, 0.8), Period.parse(interval)
    start = period.start(NOW) - (period.ms if period.seconds < 3_600 else 0)
    rows = trades(market, "SOL", start, NOW + 1)
    found = asked(market, "SOL", interval, start, NOW, NOW)
    assert found == folded(rows, period, NOW)
    assert not found[-1].closed


def test_the_open_candle_grows_with_every_trade_and_ends_as_the_minute_that_was_foretold() -> None:
    market, start = SimMarket(7, 60.0), NOW - NOW % MINUTE_MS
    counts = []
    for now in range(start, start + MINUTE_MS, 7_000):
        rows = trades(market, "ETH", start, now + 1)
        assert asked(market, "ETH", "1m", start, now + 1, now) == folded(rows, Period(60), now)
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_the_same_seed_gives_the_same_market_and_another_seed_another() -> None:
    minute = NOW // MINUTE_MS
    one, same, other = (SimMarket(seed, 30.0).prints(BTC, minute) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.px, other.px)


def test_what_was_asked_before_does_not_change_what_is_answered() -> None:
    """A venue that was restarted has the same past and the same future."""
    used, fresh = SimMarket(7, 30.0), SimMarket(7, 30.0)
    for minute in range(NOW // MINUTE_MS - 30, NOW // MINUTE_MS):
        used.prints(XRP, minute)
        used.prints(BTC, minute)
    window = (BTC, NOW - 90_000, NOW)
    assert frames.trades(BTC, used.trades(*window)) == frames.trades(BTC, fresh.trades(*window))


def test_prices_do_not_depend_on_the_rate() -> None:
    slow, fast = SimMarket(7, 30.0), SimMarket(7, 20_000.0)
    minute = NOW // MINUTE_MS
    assert slow.minutes(BTC, minute - 9, minute).o.tolist() == fast.minutes(BTC, minute - 9, minute).o.tolist()


def test_trades_are_in_order_have_unique_ids_and_stay_in_their_minute() -> None:
    market = SimMarket(7, 600.0)
    minute = NOW // MINUTE_MS
    parts = [market.prints(listing, minute + k) for listing in LISTINGS for k in (0, 1)]
    for part, k in zip(parts, [0, 1] * len(LISTINGS), strict=True):
        assert (np.diff(part.times) >= 0).all()
        assert part.times[0] >= (minute + k) * MINUTE_MS
        assert part.times[-1] < (minute + k + 1) * MINUTE_MS
        assert (part.sz >= 1).all()
    ids = np.concatenate([part.tid for part in parts])
    assert len(np.unique(ids)) == len(ids)
    assert ids.max() < 1 << 50


@pytest.mark.parametrize("rate", [30.0, 20_000.0])
def test_as_many_trades_are_made_as_were_asked_for(rate: float) -> None:
    market, minute = SimMarket(7, rate), NOW // MINUTE_MS
    total = sum(int(market.minutes(listing, minute - 4_320, minute).n.sum()) for listing in LISTINGS)
    assert total / (4_321 * 60) == pytest.approx(rate, rel=0.2)


def test_the_market_has_bursts_and_quiet_stretches() -> None:
    counts = SimMarket(7, 30.0).minutes(BTC, NOW // MINUTE_MS - 1_440, NOW // MINUTE_MS).n
    usual = float(np.median(counts))
    assert counts.max() > 3 * usual
    assert counts.min() < usual / 4


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.coin)
def test_prices_stay_believable_and_keep_five_significant_figures(listing: Listing) -> None:
    rows = SimMarket(11, 30.0).minutes(listing, NOW // MINUTE_MS - 30 * 1_440, NOW // MINUTE_MS)
    price = listing.ticks(listing.price)
    assert 0.6 * price < rows.l.min() < rows.h.max() < 1.6 * price
    steps = np.abs(np.diff(np.log(rows.c)))
    assert steps.max() < 0.03
    assert rows.l.min() >= 10_000
    assert rows.h.max() < 100_000 or listing.price_decimals == 0


def test_a_book_fits_the_last_trade_and_changes_with_it() -> None:
    market = SimMarket(7, 30.0)
    books = []
    for at in range(NOW, NOW + 20_000, 500):
        last = market.recent(BTC, at, 1)
        now = book(market, BTC, at, at)
        best = now.asks.px[0] if last.buy[0] else now.bids.px[0]
        assert best == last.px[0]
        assert now.asks.px[0] - now.bids.px[0] == 1
        assert len(now.bids.px) == len(now.asks.px) == 20
        assert (np.diff(now.bids.px) < 0).all()
        assert (np.diff(now.asks.px) > 0).all()
        assert min(now.bids.sz.min(), now.asks.sz.min(), now.bids.n.min(), now.asks.n.min()) >= 1
        books.append(frames.l2_book(BTC, now, 0))
    assert len(set(books)) > 20


def test_the_newest_5000_candles_are_there_and_no_more() -> None:
    market = SimMarket(7, 30.0)
    found = candles(market, BTC, "1m", 0, NOW, NOW)
    assert len(found.starts) == 5_000
    assert int(found.starts[-1]) == NOW - NOW % MINUTE_MS
    assert (np.diff(found.starts) == MINUTE_MS).all()


@pytest.mark.parametrize("interval", INTERVALS)
def test_every_interval_has_whole_candles_without_a_break(interval: str) -> None:
    found = candles(SimMarket(7, 30.0), XRP, interval, 0, NOW, NOW)
    assert found.starts[-1] <= NOW <= found.ends[-1]
    assert (found.starts[1:] == found.ends[:-1] + 1).all()
    assert (NOW - int(found.starts[0])) / 86_400_000 >= 3.4


def test_minutes_without_a_trade_are_rows_without_volume() -> None:
    market = SimMarket(7, 0.2)
    found = candles(market, XRP, "1m", NOW - 300 * MINUTE_MS, NOW, NOW)
    empty = np.flatnonzero(found.rows.n == 0)[1:]
    assert len(empty)
    assert (found.rows.v[empty] == 0).all()
    assert (found.rows.h[empty] == found.rows.c[empty - 1]).all()


@pytest.mark.parametrize(
    ("units", "decimals", "words"),
    [(92_431, 0, "92431.0"), (31_505, 1, "3150.5"), (120, 5, "0.0012"), (100_000, 5, "1.0"), (21_000, 5, "0.21")],
)
def test_numbers_are_written_as_the_venue_writes_them(units: int, decimals: int, words: str) -> None:
    assert text(units, decimals) == words


def test_an_impossible_rate_is_refused() -> None:
    with pytest.raises(BadSetting, match="ART_SIM_TRADES_PER_S"):
        SimMarket(7, 0.0)
