"""The part of an open candle that nobody watched: a venue's minutes, folded into the longer candles around them.

A market is not watched before the first start nor during a hole. An hour's candle that is open then would show only
what was seen since. The venue's one-minute candles of that time are there long before its own hour is, so they are
put in, each once; when the hour is over, the venue's own candle has the last word.
"""

from collections.abc import Iterable
from decimal import Context, Decimal

import msgspec

from artery.model.events import Candle
from artery.model.fold import Bar

MINUTE_MS = 60_000
DAY_MS = 86_400_000
SPANS_MAX = 1_000
_EXACT = Context(prec=76)
_ZERO = Decimal(0)


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A time that a feed does not vouch for, of one market or of all (`coin` empty)."""

    provider: str
    coin: str
    from_ms: int
    to_ms: int

    def touches(self, candle: Candle) -> bool:
        return self._is_of(candle) and self.from_ms < candle.end_ts and self.to_ms > candle.start_ts

    def covers(self, candle: Candle) -> bool:
        return self._is_of(candle) and self.from_ms <= candle.start_ts and self.to_ms >= candle.end_ts

    def _is_of(self, candle: Candle) -> bool:
        return self.provider == candle.provider and self.coin in ("", candle.coin)


class Minutes(msgspec.Struct, array_like=True):
    """What was not watched of the last two days, and which of its minutes are already put in (a bit for each)."""

    spans: list[Span] = []
    done: dict[str, str] = {}
    """The bits of each `provider|coin|day` in hexadecimal, as no format has a whole number that long."""

    def copy(self) -> "Minutes":
        return Minutes(list(self.spans), dict(self.done))

    def mark(self, spans: Iterable[Span]) -> None:
        """A feed has said what it cannot vouch for."""
        self.spans = [*self.spans, *spans][-SPANS_MAX:]

    def take(self, candle: Candle, own: Bar | None, *, known: bool) -> Bar | None:
        """What a venue's minute adds to the candles around it, or None.

        `own` is what we ourselves have of this minute; `known` says that there is no more of it than that.
        """
        known = known or any(span.covers(candle) for span in self.spans)
        if not known or not any(span.touches(candle) for span in self.spans) or not self._first_time(candle):
            return None
        v, n = candle.v, candle.n
        if own is not None:
            v, n = max(_ZERO, _EXACT.subtract(v, own.v)), max(0, n - own.n)
        first, last = (candle.start_ts, 0, 0), (candle.end_ts - 1, 2**62, 2**62)
        return Bar(first, last, candle.o, candle.h, candle.l, candle.c, v, n)

    def forget(self, before_ms: int) -> None:
        """Days and spans that ended before this time are of no more use."""
        self.spans = [span for span in self.spans if span.to_ms >= before_ms]
        self.done = {day: bits for day, bits in self.done.items() if int(day.rpartition("|")[2]) + DAY_MS > before_ms}

    def _first_time(self, candle: Candle) -> bool:
        day_ms = candle.start_ts - candle.start_ts % DAY_MS
        key, bit = f"{candle.provider}|{candle.coin}|{day_ms}", 1 << (candle.start_ts - day_ms) // MINUTE_MS
        bits = int(self.done.get(key, "0"), 16)
        self.done[key] = f"{bits | bit:x}"
        return not bits & bit
