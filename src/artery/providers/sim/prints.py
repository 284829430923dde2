"""The trades of one simulated minute, made so that they fold into exactly that minute's candle."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from artery.providers.sim.listing import Listing
from artery.providers.sim.minutes import MINUTE_MS, Floats, Ints, Minutes

_ID_BITS = 50
_MASK = np.uint64((1 << _ID_BITS) - 1)
_MIX = (np.uint64(0x2_9E37_79B9_7F4B), np.uint64(0x1_BF58_476D_1CE5))  # odd, so that mixing never maps two ids on one


class Prints(NamedTuple):
    """Columns of trades in order of time: ms since 1970, ticks, lots, whether the buyer was the aggressor, id."""

    times: Ints
    px: Ints
    sz: Ints
    buy: NDArray[np.bool_]
    tid: Ints

    def __len__(self) -> int:
        return len(self.times)

    @staticmethod
    def none() -> "Prints":
        empty = np.empty(0, np.int64)
        return Prints(empty, empty, empty, np.empty(0, np.bool_), empty)

    def slice(self, start: int, stop: int) -> "Prints":
        cut = np.s_[start:stop]
        return Prints(self.times[cut], self.px[cut], self.sz[cut], self.buy[cut], self.tid[cut])

    def between(self, after_ms: int, up_to_ms: int) -> "Prints":
        """Those with `after_ms` < time ≤ `up_to_ms`."""
        start, stop = np.searchsorted(self.times, (after_ms, up_to_ms), side="right")
        return self.slice(int(start), int(stop))

    def newest(self, count: int) -> "Prints":
        return self.slice(max(0, len(self) - count), len(self))


def join(parts: Sequence[Prints]) -> Prints:
    """Parts in order as one."""
    full = [part for part in parts if len(part)]
    if not full:
        return Prints.none()
    return full[0] if len(full) == 1 else Prints(*(np.concatenate(columns) for columns in zip(*full, strict=True)))


def make_prints(rng: np.random.Generator, listing: Listing, minute: int, shape: Minutes, steady: float) -> Prints:
    """The trades of this minute; `shape` is the one minute that they must fold into."""
    o, h, l, c, v, n = (int(column[0]) for column in shape)  # noqa: E741
    if n == 0:
        return Prints.none()
    times = minute * MINUTE_MS + _times(rng, n, steady)
    buy = np.cumsum(rng.random(n) < 0.3) % 2 == int(rng.integers(0, 2))  # aggressors come in runs
    px = _prices(rng, n, o, h, l, c, buy)
    return Prints(times, px, _sizes(rng, n, v), buy, _ids(listing.index, minute, n))


def _times(rng: np.random.Generator, n: int, steady: float) -> Ints:
    """Milliseconds within the minute, in order; some seconds are busier than others."""
    weights = (rng.gamma(0.8, size=60) + 0.05) ** steady
    edges = np.concatenate(([0.0], np.cumsum(weights)))
    gaps = np.cumsum(rng.standard_exponential(n + 1))
    places = gaps[:-1] * (edges[-1] / gaps[-1])
    at = np.interp(places, edges, np.arange(61) * 1_000.0).astype(np.int64)
    clipped: Ints = np.minimum(at, MINUTE_MS - 1)
    return clipped


def _prices(rng: np.random.Generator, n: int, o: int, h: int, low: int, c: int, buy: NDArray[np.bool_]) -> Ints:
    """A walk from open to close that touches high and low and never leaves them; `buy` is set right where it must."""
    if n <= 2:
        return np.array([o, c][:n], np.int64)
    line = np.linspace(0.0, 1.0, n)
    walk = np.concatenate(([0.0], np.cumsum(rng.standard_normal(n - 1))))
    bridge = (walk - line * walk[-1]) / np.sqrt(n - 1)
    path = _stretched(o + (c - o) * line + bridge * max(1.0, 0.7 * (h - low)), o, h, low, c)
    px = np.clip(np.floor(path).astype(np.int64) + buy, low, h)
    px[0], px[-1] = o, c
    inner = px[1:-1]
    if px.max() < h:
        top = int(inner.argmax())
        inner[top], buy[top + 1] = h, True
    if px.min() > low:
        bottom = int(inner.argmin())
        inner[bottom], buy[bottom + 1] = low, False
    return px


def _stretched(path: Floats, o: int, h: int, low: int, c: int) -> Floats:
    """`path` with what lies outside open and close scaled to end at high and low."""
    for edge, limit, outside in ((max(o, c), h, path > max(o, c)), (min(o, c), low, path < min(o, c))):
        reach = np.abs(path[outside] - edge).max(initial=0.0)
        if reach > 0.0:
            path[outside] = edge + (path[outside] - edge) * (abs(limit - edge) / reach)
    return path


def _sizes(rng: np.random.Generator, n: int, v: int) -> Ints:
    """`n` sizes of at least one lot that add up to exactly `v`, most of them small."""
    cuts = np.cumsum(np.exp(1.3 * rng.standard_normal(n)))
    marks = np.floor(cuts * ((v - n) / cuts[-1])).astype(np.int64)
    marks[-1] = v - n
    sizes: Ints = np.diff(marks, prepend=0) + 1
    return sizes


def _ids(index: int, minute: int, n: int) -> Ints:
    """Ids of 50 bits that look like hashes and never meet: (minute, market, place), mixed one to one."""
    base = ((minute & ((1 << 25) - 1)) << 25) | (index << 22)
    ids = np.uint64(base) | np.arange(n, dtype=np.uint64)
    for factor in _MIX:
        ids = (ids * factor) & _MASK
        ids ^= ids >> np.uint64(23)
    return ids.astype(np.int64)
