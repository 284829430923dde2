"""Every minute of a simulated day: open, high, low, close, volume and number of trades."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artery.providers.sim.listing import Listing

MINUTE_MS = 60_000
DAY_MINUTES = 1_440
PRINTS_MAX = 1 << 22  # trades of one market in a minute; a trade id has room for no more

_SLOW_DAYS = 16  # the slow tide turns this often
_USUAL_ACTIVITY = 1.13  # mean of `_activity` before it is scaled to 1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Minutes(NamedTuple):
    """Columns of consecutive minutes; prices in ticks, volume in lots. Where `n` is 0 the prices are only a guess."""

    o: Ints
    h: Ints
    l: Ints  # noqa: E741
    c: Ints
    v: Ints
    n: Ints

    @staticmethod
    def join(parts: Sequence["Minutes"]) -> "Minutes":
        return (
            parts[0] if len(parts) == 1 else Minutes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        )

    def slice(self, start: int, stop: int) -> "Minutes":
        return Minutes(*(column[start:stop] for column in self))


def steadiness(trades_per_s: float) -> float:
    """1 for a lively market, falling to 0 where load is the point: bursts on top of it would only surprise."""
    return min(1.0, 100.0 / trades_per_s)


def make_day(seed: int, listing: Listing, day: int, trades_per_s: float) -> Minutes:
    """The 1,440 minutes of this day (counted since 1970)."""
    rng = np.random.default_rng([seed, listing.index, day, 1])
    activity = _activity(rng)
    volatility = listing.volatility * _regime(rng) * np.sqrt(activity)
    fair = listing.price * np.exp(
        _walk(rng, volatility, _midnight(seed, listing, day), _midnight(seed, listing, day + 1))
    )
    ticks = np.rint(listing.ticks(1.0) * fair).astype(np.int64)
    wicks = np.abs(rng.standard_normal((2, DAY_MINUTES))) * 0.5 * volatility * listing.ticks(1.0) * fair[:-1]
    bounce = rng.integers(0, 2, (2, DAY_MINUTES))
    busy = np.exp(0.35 * rng.standard_normal(DAY_MINUTES))
    # Only from here on does the rate matter: prices are the same at any rate.
    usual = trades_per_s * listing.share * 60.0
    n = np.minimum(rng.poisson(usual * activity ** steadiness(trades_per_s)), PRINTS_MAX).astype(np.int64)
    lots = np.rint(n * busy * listing.usual_lots(1.0) / fair[:-1]).astype(np.int64)
    return _shape(ticks[:-1] + bounce[0], ticks[1:] + bounce[1], wicks.astype(np.int64), n, n + lots)


def _shape(o: Ints, c: Ints, wicks: Ints, n: Ints, v: Ints) -> Minutes:
    """High and low that so few trades can reach: one trade has one price, three can reach one extreme, four both."""
    c = np.where(n <= 1, o, c)
    h = np.maximum(o, c) + np.where(n >= 3, wicks[0], 0)
    low = np.minimum(o, c) - np.where(n >= 4, wicks[1], 0)
    return Minutes(o, h, low, c, v, n)


def _midnight(seed: int, listing: Listing, day: int) -> float:
    """Logarithm of the price at the start of a day, against the listing's own: a slow tide and the day's luck."""
    block, place = divmod(day, _SLOW_DAYS)
    tide = [float(np.random.default_rng([seed, listing.index, block + k, 0]).standard_normal()) for k in (0, 1)]
    luck = float(np.random.default_rng([seed, listing.index, day, 2]).standard_normal())
    slow = tide[0] + (tide[1] - tide[0]) * place / _SLOW_DAYS
    return 0.25 * float(np.tanh(0.6 * slow)) + 0.02 * float(np.tanh(luck / 2.0)) * 2.0


def _walk(rng: np.random.Generator, volatility: Floats, start: float, end: float) -> Floats:
    """1,441 steps from `start` to `end`: noise, and trends that last half an hour."""
    trends = np.repeat(rng.standard_normal(DAY_MINUTES // 30), 30)
    steps = volatility * (0.9 * rng.standard_normal(DAY_MINUTES) + 0.15 * trends)
    path = np.concatenate(([0.0], np.cumsum(steps)))
    walk: Floats = start + path + np.linspace(0.0, 1.0, DAY_MINUTES + 1) * (end - start - path[-1])
    return walk


def _regime(rng: np.random.Generator) -> Floats:
    """How restless the price is, minute by minute."""
    knots = np.exp(0.35 * rng.standard_normal(49))
    return np.interp(np.arange(DAY_MINUTES), np.linspace(0, DAY_MINUTES, 49), knots)


def _activity(rng: np.random.Generator) -> Floats:
    """How busy trading is, minute by minute, around 1: it swells and ebbs, with quiet stretches and bursts."""
    knots = np.exp(0.5 * rng.standard_normal(145))
    activity = np.interp(np.arange(DAY_MINUTES), np.linspace(0, DAY_MINUTES, 145), knots)
    for start, length in zip(rng.integers(0, DAY_MINUTES, 6), rng.integers(5, 20, 6), strict=True):
        activity[start : start + length] *= 0.08
    bursts = zip(rng.integers(0, DAY_MINUTES, 8), rng.integers(1, 5, 8), rng.uniform(3.0, 6.0, 8), strict=True)
    for start, length, strength in bursts:
        activity[start : start + length] *= strength
    scaled: Floats = activity / _USUAL_ACTIVITY
    return scaled
