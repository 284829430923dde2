"""The volume-weighted average price since midnight (UTC), from trades; sums are exact, so order does not matter."""

from collections.abc import Iterable
from decimal import Context, Decimal

import msgspec

from artery.model.periods import Period

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
_EXACT = Context(prec=200)
_RATIO = Context(prec=40)
_ZERO = Decimal(0)

Sums = tuple[Decimal, Decimal]
"""Price times size, and size, of some trades."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """Trades of yesterday and today, summed: by the minute since `fine_from`, by the hour before it."""

    sums: dict[int, Sums] = {}
    fine_from: int = 0


def has_vwap(period: Period) -> bool:
    """Whether candles of this length have one: whole minutes, and a whole number of them in a day."""
    return period.ms % MINUTE_MS == 0 and DAY_MS % period.ms == 0


class Vwap:
    """One market's trades, as far as the averages of its newest candles need them.

    Candles that ended less than `fine_ms` ago have an average, older ones only if they end with an hour of yesterday
    or today.
    """

    def __init__(self, state: State | None = None, fine_ms: int = 2 * HOUR_MS) -> None:
        state = state or State()
        self._fine_ms = fine_ms
        self._sums = dict(state.sums)
        self._fine_from = state.fine_from
        self._days: dict[int, Sums] = {}
        for start, sums in self._sums.items():
            self._days[_day(start)] = _plus(self._days.get(_day(start)), sums)

    def state(self) -> State:
        return State(dict(self._sums), self._fine_from)

    def add(self, ts: int, px: Decimal, sz: Decimal, now_ms: int | None = None) -> None:
        """Take one trade in; one from before yesterday is too late for any average that is kept.

        However far ahead of `now_ms`, the time at which it came, a trade is dated, the others keep their minutes.
        """
        self.add_sums(ts, (_EXACT.multiply(px, sz), sz), now_ms)

    def add_sums(self, ts: int, traded: Sums, now_ms: int | None = None) -> None:
        """Take the sums of trades in, all of the minute of `ts`."""
        day = _day(ts)
        if self._fine_from and day < _day(self._fine_from) - DAY_MS:
            return
        start = ts - ts % (MINUTE_MS if ts >= self._fine_from else HOUR_MS)
        self._sums[start] = _plus(self._sums.get(start), traded)
        self._days[day] = _plus(self._days.get(day), traded)
        newest = ts if now_ms is None else min(ts, now_ms)
        fine_from = newest - newest % HOUR_MS - self._fine_ms
        if fine_from > self._fine_from:
            self._coarsen(fine_from)

    def at(self, start: int, end: int) -> float | None:
        """The average from the midnight before `start` to `end`; None if nothing was traded or too little is kept."""
        day = _day(start)
        total = self._days.get(day)
        if total is None or (end < self._fine_from and end % HOUR_MS):
            return None
        later = [sums for at, sums in self._sums.items() if end <= at < day + DAY_MS]
        value, size = _minus(total, later)
        return float(_RATIO.divide(value, size)) if size > 0 else None

    def _coarsen(self, fine_from: int) -> None:
        """Minutes that are over for long become hours; what is older than yesterday is forgotten."""
        oldest = _day(fine_from) - DAY_MS
        sums: dict[int, Sums] = {}
        for at, part in self._sums.items():
            if at >= oldest:
                start = at if at >= fine_from else at - at % HOUR_MS
                sums[start] = _plus(sums.get(start), part)
        self._sums, self._fine_from = sums, fine_from
        self._days = {day: part for day, part in self._days.items() if day >= oldest}


def _day(ts: int) -> int:
    return ts - ts % DAY_MS


def _plus(a: Sums | None, b: Sums) -> Sums:
    return b if a is None else (_EXACT.add(a[0], b[0]), _EXACT.add(a[1], b[1]))


def _minus(total: Sums, parts: Iterable[Sums]) -> Sums:
    value, size = total
    for part in parts:
        value, size = _EXACT.subtract(value, part[0]), _EXACT.subtract(size, part[1])
    return value, size
