"""The simulated market: a pure function of seed, rate, coin and time.

Prices are decided from the top down, so that any moment can be computed without the ones before it: the price at
each midnight, then a walk between two midnights that gives every minute its open, high, low, close, volume and
count, then the trades of a minute, made so that they fold into exactly that minute. Candles of any past are
therefore cheap at any rate, and a venue that was restarted has the same past and the same future.
"""

from functools import lru_cache

import numpy as np

from artery.errors import BadSetting
from artery.providers.sim.listing import LISTINGS, Listing
from artery.providers.sim.minutes import DAY_MINUTES, MINUTE_MS, Minutes, make_day, steadiness
from artery.providers.sim.prints import Prints, join, make_prints

RATE_MAX = 100_000.0
DAYS_KEPT = 64
PRINTS_KEPT = 3_000_000
LOOK_BACK_MINUTES = 2 * DAY_MINUTES


class SimMarket:
    """All markets of one seed and rate; what it computed lately is kept."""

    def __init__(self, seed: int = 7, trades_per_s: float = 30.0, candles_kept: int = 5_000) -> None:
        """`candles_kept` is how many candles of each interval can still be asked for; 0 means all of them."""
        if not 0 < trades_per_s <= RATE_MAX:
            raise BadSetting(f"ART_SIM_TRADES_PER_S must be above 0 and at most {RATE_MAX:.0f}, not {trades_per_s}")
        self.seed = seed
        self.trades_per_s = trades_per_s
        self.candles_kept = candles_kept
        self.delisted = ""  # what its metadata says of this market
        self._day = lru_cache(maxsize=DAYS_KEPT)(self._make_day)
        minutes_kept = PRINTS_KEPT * len(LISTINGS) / (60 * trades_per_s)
        self._prints = lru_cache(maxsize=int(min(max(13.0, minutes_kept), 256.0)))(self._make_prints)

    def minutes(self, listing: Listing, first: int, last: int) -> Minutes:
        """The minutes `first` to `last`, both included, counted since 1970."""
        days = range(first // DAY_MINUTES, last // DAY_MINUTES + 1)
        whole = Minutes.join([self._day(listing.index, day) for day in days])
        offset = days.start * DAY_MINUTES
        return whole.slice(first - offset, last - offset + 1)

    def prints(self, listing: Listing, minute: int) -> Prints:
        """All trades of a minute, also those still to come."""
        return self._prints(listing.index, minute)

    def trades(self, listing: Listing, after_ms: int, up_to_ms: int) -> Prints:
        """The trades with `after_ms` < time ≤ `up_to_ms`, in order."""
        minutes = range((after_ms + 1) // MINUTE_MS, up_to_ms // MINUTE_MS + 1)
        return join([self.prints(listing, minute).between(after_ms, up_to_ms) for minute in minutes])

    def recent(self, listing: Listing, up_to_ms: int, count: int) -> Prints:
        """The newest `count` trades up to this moment, in order; fewer if the last two days have no more."""
        parts: list[Prints] = []
        minute = up_to_ms // MINUTE_MS
        oldest = minute - LOOK_BACK_MINUTES
        while count > 0 and minute > oldest:
            part = self._prints_if_any(listing, minute).between(0, up_to_ms).newest(count)
            parts.append(part)
            count -= len(part)
            minute -= 1
        return join(parts[::-1])

    def next_ms(self, listing: Listing, after_ms: int) -> int:
        """When the next trade is due, or the end of this minute if it has no more."""
        minute = after_ms // MINUTE_MS
        times = self.prints(listing, minute).times
        index = int(np.searchsorted(times, after_ms, side="right"))
        return int(times[index]) if index < len(times) else (minute + 1) * MINUTE_MS

    def fair_ticks(self, listing: Listing, at_ms: int) -> int:
        """Where the price stands in a minute without trades."""
        minute = at_ms // MINUTE_MS
        return int(self.minutes(listing, minute, minute).o[0])

    def _prints_if_any(self, listing: Listing, minute: int) -> Prints:
        """Saves making the trades of minutes that have none."""
        if int(self.minutes(listing, minute, minute).n[0]) == 0:
            return Prints.none()
        return self.prints(listing, minute)

    def _make_day(self, index: int, day: int) -> Minutes:
        return make_day(self.seed, LISTINGS[index], day, self.trades_per_s)

    def _make_prints(self, index: int, minute: int) -> Prints:
        listing = LISTINGS[index]
        rng = np.random.default_rng([self.seed, index, minute, 3])
        return make_prints(rng, listing, minute, self.minutes(listing, minute, minute), steadiness(self.trades_per_s))
