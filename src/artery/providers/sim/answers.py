"""What the simulated venue answers to `POST /info`, and to a test that asks for the truth."""

from collections.abc import Callable
from typing import Any

import msgspec

from artery.providers.sim import frames
from artery.providers.sim.book import book, mid_halves
from artery.providers.sim.candles import INTERVALS, candles
from artery.providers.sim.listing import BY_COIN, LISTINGS, Listing
from artery.providers.sim.market import SimMarket
from artery.providers.sim.prints import Prints

RECENT_TRADES = 10
TRUTH_MAX_MS = 24 * 3_600_000
TRUTH_MAX_TRADES = 500_000

Answer = tuple[int, bytes]
_UNREADABLE: Answer = (422, b"Failed to deserialize the JSON body into the target type")


def info(market: SimMarket, body: bytes, now_ms: int) -> Answer:
    """Status and body for a request to `/info`."""
    request = _object(body)
    answer = _ANSWERS.get(request.get("type", "") if isinstance(request.get("type"), str) else "")
    if answer is None:
        return _UNREADABLE
    try:
        return 200, answer(market, request, now_ms).encode()
    except _UnknownCoin:
        return 500, b"null"
    except (KeyError, TypeError, ValueError):
        return _UNREADABLE


def truth(market: SimMarket, body: bytes, now_ms: int) -> Answer:
    """All trades of `coin` with `start_ms` ≤ time < `end_ms` that have happened, oldest first."""
    request = _object(body)
    try:
        listing = _listing(request["coin"])
        start_ms, end_ms = _whole(request["start_ms"]), min(_whole(request["end_ms"]), now_ms + 1)
    except (_UnknownCoin, KeyError, TypeError, ValueError):
        return 400, b'{"error":"send coin, start_ms and end_ms"}'
    too_much = b'{"error":"that is too much at once: ask for a shorter time"}'
    if end_ms - start_ms > TRUTH_MAX_MS:
        return 413, too_much
    expected = market.trades_per_s * listing.share * max(0, end_ms - start_ms) / 1_000
    if expected > TRUTH_MAX_TRADES:
        return 413, too_much
    prints = market.trades(listing, start_ms - 1, end_ms - 1) if start_ms < end_ms else Prints.none()
    return 200, frames.trades(listing, prints).encode()


class _UnknownCoin(Exception):
    pass


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _listing(coin: object) -> Listing:
    if not isinstance(coin, str):
        raise TypeError(coin)
    if coin not in BY_COIN:
        raise _UnknownCoin(coin)
    return BY_COIN[coin]


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise TypeError(value)
    return value


def _meta(market: SimMarket, _request: dict[str, Any], _now_ms: int) -> str:
    return frames.meta(market.delisted)


def _all_mids(market: SimMarket, _request: dict[str, Any], now_ms: int) -> str:
    return frames.all_mids({listing.coin: mid_halves(market, listing, now_ms) for listing in LISTINGS})


def _l2_book(market: SimMarket, request: dict[str, Any], now_ms: int) -> str:
    listing = _listing(request["coin"])
    return frames.l2_book(listing, book(market, listing, now_ms, now_ms), now_ms)


def _recent_trades(market: SimMarket, request: dict[str, Any], now_ms: int) -> str:
    listing = _listing(request["coin"])
    newest = market.recent(listing, now_ms, RECENT_TRADES)
    return frames.trades(
        listing,
        Prints(newest.times[::-1], newest.px[::-1], newest.sz[::-1], newest.buy[::-1], newest.tid[::-1]),
    )


def _candle_snapshot(market: SimMarket, request: dict[str, Any], now_ms: int) -> str:
    asked = request["req"]
    listing, interval = _listing(asked["coin"]), asked["interval"]
    if interval not in INTERVALS:
        raise ValueError(interval)
    start_ms, end_ms = _whole(asked["startTime"]), _whole(asked.get("endTime", now_ms))
    found = candles(market, listing, interval, start_ms, end_ms, now_ms)
    return f"[{','.join(frames.candle_rows(listing, interval, found))}]"


_ANSWERS: dict[str, Callable[[SimMarket, dict[str, Any], int], str]] = {
    "meta": _meta,
    "allMids": _all_mids,
    "l2Book": _l2_book,
    "recentTrades": _recent_trades,
    "candleSnapshot": _candle_snapshot,
}
