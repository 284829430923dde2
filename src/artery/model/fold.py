"""Trades into candles, as a pure function: any order, any duplication, the same result."""

from collections.abc import Iterable
from decimal import Context, Decimal

import msgspec

from artery.model.events import Candle, Trade
from artery.model.periods import Period

_EXACT = Context(prec=76)
"""Sums keep every digit that the lake can hold; Python's usual context would round at 28."""

SIZE_MAX = Decimal(10) ** 17
"""A larger trade is stored but not folded: a thousand of them would no longer fit a DECIMAL(38,18)."""
AHEAD_MAX_MS = 86_400_000
"""Nor is one folded that is dated later than this after it came: its candle would be open for ever."""

Place = tuple[int, int, int]
"""Where a trade stands among its market's: (ts, epoch, seq)."""


class Bar(msgspec.Struct, frozen=True, gc=False):
    """What some trades of one market amount to; `first` and `last` decide open and close when bars join."""

    first: Place
    last: Place
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741
    c: Decimal
    v: Decimal
    n: int


def counts(trade: Trade) -> bool:
    """Whether a trade is folded; one whose size or time is absurd is not."""
    return trade.sz < SIZE_MAX and trade.ts - trade.event_ts <= AHEAD_MAX_MS


def bar(trade: Trade) -> Bar:
    """One trade as a bar."""
    place = (trade.ts, trade.epoch, trade.seq)
    return Bar(place, place, trade.px, trade.px, trade.px, trade.px, trade.sz, 1)


def join(a: Bar, b: Bar) -> Bar:
    """Two bars of different trades as one; order does not matter."""
    opens, closes = a if a.first <= b.first else b, a if a.last >= b.last else b
    high, low = a.h if a.h >= b.h else b.h, a.l if a.l <= b.l else b.l
    return Bar(opens.first, closes.last, opens.o, high, low, closes.c, _EXACT.add(a.v, b.v), a.n + b.n)


def bars(trades: Iterable[Trade], period: Period) -> dict[tuple[str, str, int], Bar]:
    """The bar of each (provider, coin, start), with each trade counted once, and none that is absurd."""
    result: dict[tuple[str, str, int], Bar] = {}
    seen: set[tuple[str, str, int, str]] = set()
    for trade in trades:
        name = (trade.provider, trade.coin, trade.ts, trade.tid)
        if name in seen or not counts(trade):
            continue
        seen.add(name)
        key = (trade.provider, trade.coin, period.start(trade.ts))
        old = result.get(key)
        result[key] = bar(trade) if old is None else join(old, bar(trade))
    return result


def candle(key: tuple[str, str, int], period: Period, bar: Bar, *, event_ts: int, closed: bool = False) -> Candle:
    """The bar as a candle, without a place in its series yet."""
    provider, coin, start_ts = key
    return Candle(
        provider=provider,
        coin=coin,
        period=period,
        start_ts=start_ts,
        o=bar.o,
        h=bar.h,
        l=bar.l,
        c=bar.c,
        v=bar.v,
        n=bar.n,
        closed=closed,
        event_ts=event_ts,
    )
