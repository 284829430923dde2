"""What the engine keeps in the store: the values that everyone reads, and its own state. Pure."""

from typing import Any

import msgspec

from artery.indicators import vwap
from artery.indicators.bar import Bar
from artery.indicators.standard import NAMES, VWAP, Values
from artery.indicators.track import Saved, Track
from artery.indicators.vwap import Vwap, has_vwap
from artery.model.periods import Period
from artery.model.taken import Run

SERIES = "artery:engine:series:"
MARKETS = "artery:engine:market:"


class Key(msgspec.Struct, frozen=True, order=True):
    """One series of candles."""

    provider: str
    coin: str
    period: Period

    def __str__(self) -> str:
        return f"{self.provider}:{self.coin}:{self.period}"


class SavedSeries(msgspec.Struct, frozen=True, array_like=True):
    """A track and the place in the candle stream that it has reached, in one value."""

    provider: str
    coin: str
    period_s: int
    position: str
    track: Saved


class SavedMarket(msgspec.Struct, frozen=True, array_like=True):
    """A market's sums, the place in the trade stream that they have reached, and the places in the market's own series
    that are in them, in one value."""

    provider: str
    coin: str
    position: str
    sums: vwap.State
    taken: list[Run]


def record(key: Key, track: Track, sums: Vwap | None, position: str) -> bytes:
    """The values of the newest closed and of the open candle, where they begin, and the place they stand for."""
    return msgspec.json.encode(
        {
            "closed": _values(key, track.closed_values(), sums),
            "open": _values(key, track.open_values(), sums),
            "from": track.first,
            "position": position,
            "warm": track.warm,
        }
    )


def _values(key: Key, found: tuple[Bar, Values] | None, sums: Vwap | None) -> dict[str, Any] | None:
    if found is None:
        return None
    bar, values = found
    average = sums.at(bar.start, bar.start + key.period.ms) if sums and has_vwap(key.period) else None
    return {"startTs": bar.start, "rev": bar.rev, **dict(zip(NAMES, values, strict=True)), VWAP: average}
