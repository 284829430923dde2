"""Minutes into the candles of any interval that the venue serves, up to this moment."""

from typing import NamedTuple

import numpy as np

from artery.providers.sim.listing import Listing
from artery.providers.sim.market import SimMarket
from artery.providers.sim.minutes import DAY_MINUTES, MINUTE_MS, Ints, Minutes
from artery.providers.sim.prints import Prints

HISTORY_DAYS = 60

_MONTH = "1M"
_LENGTHS = {
    "1m": 1,
    "3m": 3,
    "5m": 5,
    "15m": 15,
    "30m": 30,
    "1h": 60,
    "2h": 120,
    "4h": 240,
    "8h": 480,
    "12h": 720,
    "1d": DAY_MINUTES,
    "3d": 3 * DAY_MINUTES,
    "1w": 7 * DAY_MINUTES,
}
INTERVALS = (*_LENGTHS, _MONTH)


class Candles(NamedTuple):
    """Candles in order: first and last ms of each, and their minutes' columns folded."""

    starts: Ints
    ends: Ints
    rows: Minutes


def candles(market: SimMarket, listing: Listing, interval: str, start_ms: int, end_ms: int, now_ms: int) -> Candles:
    """Those that start in [start_ms, end_ms], of the newest that the venue still has; the last may be open."""
    now = now_ms // MINUTE_MS
    newest = int(_groups(interval, np.array([now]))[0])
    kept = int(_groups(interval, np.array([now - HISTORY_DAYS * DAY_MINUTES]))[0])
    horizon = max(kept, newest - market.candles_kept + 1) if market.candles_kept else 0
    first_asked = int(_groups(interval, np.array([max(start_ms - 1, 0) // MINUTE_MS]))[0])
    last_asked = int(_groups(interval, np.array([min(max(end_ms // MINUTE_MS, 0), now)]))[0])
    first = max(horizon, first_asked)
    last = min(newest, last_asked)
    if last < first:
        return Candles(np.empty(0, np.int64), np.empty(0, np.int64), Minutes(*[np.empty(0, np.int64)] * 6))
    bounds = _minute_of(interval, np.arange(first, last + 2))
    minutes = market.minutes(listing, int(bounds[0]), min(int(bounds[-1]) - 1, now))
    if int(bounds[-1]) > now:
        minutes = _with_open_minute(minutes, market.prints(listing, now).between(0, now_ms))
    folded = Candles(bounds[:-1] * MINUTE_MS, bounds[1:] * MINUTE_MS - 1, _fold(minutes, bounds - bounds[0]))
    keep = (folded.starts >= start_ms) & (folded.starts <= end_ms)
    return Candles(folded.starts[keep], folded.ends[keep], Minutes(*(column[keep] for column in folded.rows)))


def open_candle(market: SimMarket, listing: Listing, interval: str, now_ms: int) -> Candles:
    """The one candle that holds this moment, as far as it has come."""
    group = _groups(interval, np.array([now_ms // MINUTE_MS]))
    return candles(market, listing, interval, int(_minute_of(interval, group)[0]) * MINUTE_MS, now_ms, now_ms)


def _groups(interval: str, minutes: Ints) -> Ints:
    """The number of the candle that holds each minute."""
    if interval == _MONTH:
        return minutes.astype("datetime64[m]").astype("datetime64[M]").astype(np.int64)
    return minutes // _LENGTHS[interval]


def _minute_of(interval: str, groups: Ints) -> Ints:
    """The first minute of each candle."""
    if interval == _MONTH:
        return groups.astype("datetime64[M]").astype("datetime64[m]").astype(np.int64)
    return groups * _LENGTHS[interval]


def _with_open_minute(minutes: Minutes, prints: Prints) -> Minutes:
    """`minutes` with the last one as far as it has come."""
    last = len(minutes.n) - 1
    columns = [column.copy() for column in minutes]
    values = [int(minutes.o[last])] * 4 + [0, 0]
    if len(prints):
        px = prints.px
        values = [int(px[0]), int(px.max()), int(px.min()), int(px[-1]), int(prints.sz.sum()), len(prints)]
    for column, value in zip(columns, values, strict=True):
        column[last] = value
    return Minutes(*columns)


def _fold(minutes: Minutes, bounds: Ints) -> Minutes:
    """One row for each [bounds[i], bounds[i+1]); one without a trade repeats the close before it, with volume 0."""
    counts = len(bounds) - 1
    traded = np.flatnonzero(minutes.n)
    if not len(traded):
        return Minutes(*[np.repeat(minutes.o[:1], counts)] * 4, *[np.zeros(counts, np.int64)] * 2)
    group = np.searchsorted(bounds, traded, side="right") - 1
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    stops = np.append(starts[1:], len(traded)) - 1
    some = Minutes(*(column[traded] for column in minutes))
    rows = Minutes(
        some.o[starts],
        np.maximum.reduceat(some.h, starts),
        np.minimum.reduceat(some.l, starts),
        some.c[stops],
        np.add.reduceat(some.v, starts),
        np.add.reduceat(some.n, starts),
    )
    return rows if len(starts) == counts else _filled(rows, group[starts], counts, int(minutes.o[0]))


def _filled(rows: Minutes, places: Ints, counts: int, before: int) -> Minutes:
    """`rows` put at `places`, with flat rows between them."""
    latest = np.searchsorted(places, np.arange(counts), side="right") - 1
    flat = np.where(latest >= 0, rows.c[np.maximum(latest, 0)], before)
    columns = [flat.copy() for _ in range(4)] + [np.zeros(counts, np.int64) for _ in range(2)]
    for column, values in zip(columns, rows, strict=True):
        column[places] = values
    return Minutes(*columns)
