"""Every series and market that the engine knows, and what of it is to be written. Pure: no bus, no store, no clock."""

from collections.abc import Iterator

import msgspec

from artery.bus.base import START, place
from artery.engine import metrics
from artery.engine.records import MARKETS, SERIES, Key, SavedMarket, SavedSeries, record
from artery.indicators.bar import bar_of
from artery.indicators.places import values_key
from artery.indicators.track import Outcome, Track
from artery.indicators.vwap import Vwap
from artery.lake.sums import Traded
from artery.model.events import Candle, Trade
from artery.model.fold import counts
from artery.model.periods import Period
from artery.model.taken import Run, Standing, Taken
from artery.model.tickers import parse_ticker

SERIES_MAX = 10_000


class _Series:
    """One series; `closed` says that its state is to be saved, `shown` that its values are."""

    def __init__(self, track: Track, position: str = START) -> None:
        self.track = track
        self.position = position
        self.closed = self.shown = False


class _Market:
    """One market's sums, and how far in the trade stream they reach."""

    def __init__(self, sums: Vwap, position: str = START) -> None:
        self.sums = sums
        self.position = position
        self.changed = False


class Board:
    """Takes events in, any of them twice if need be, and says what is to be written.

    `behind` are the series that must be compared with the lake: they have no past yet, or a correction reached
    further back than they do.
    """

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self._series_max = series_max
        self._series: dict[Key, _Series] = {}
        self._markets: dict[tuple[str, str], _Market] = {}
        self._taken = Taken()
        self.behind: set[Key] = set()

    def __len__(self) -> int:
        return len(self._series)

    @property
    def warm(self) -> int:
        return sum(series.track.warm for series in self._series.values())

    def track(self, key: Key) -> Track:
        return self._series[key].track

    def series(self) -> list[Key]:
        return list(self._series)

    def restore_series(self, raw: bytes) -> None:
        """Become what was saved; what cannot be read is warmed up anew."""
        saved = msgspec.json.decode(raw, type=SavedSeries)
        key = Key(saved.provider, saved.coin, Period(saved.period_s))
        series = self._series[key] = _Series(Track(saved.track), saved.position)
        series.shown = True  # its values may not have been written before its writer died

    def restore_market(self, raw: bytes) -> None:
        saved = msgspec.json.decode(raw, type=SavedMarket)
        name = (saved.provider, saved.coin)
        self._markets[name] = _Market(Vwap(saved.sums), saved.position)
        self._taken.add({name: saved.taken})

    def recount(self, found: Traded, now_ms: int) -> None:
        """Every market's sums as the lake has them now: what the log has after its position is to be taken in again."""
        self._markets, self._taken = {}, Taken()
        for name, minutes in list(found.sums.items())[: self._series_max]:
            market = _Market(Vwap(), found.position)
            for minute, sums in minutes.items():
                market.sums.add_sums(minute, sums, now_ms)
            market.changed = True
            self._markets[parse_ticker(name)] = market
            self._taken.add({parse_ticker(name): found.taken[name]})
        for series in self._series.values():
            series.shown = True

    def trade(self, position: str, trade: Trade) -> None:
        """Sum a trade, once, whatever came before it. A foreign one is left out, as no clock vouches for it; so is an
        absurd one, and one of which nobody knows whether it was summed."""
        if not trade.epoch or not counts(trade):
            return
        name = (trade.provider, trade.coin)
        market = self._markets.get(name)
        if market is None:
            if len(self._markets) >= self._series_max:
                metrics.SKIPPED.inc()
                return
            market = self._markets[name] = _Market(Vwap())
        if place(position) > place(market.position):
            market.position = position
            market.changed = True
            at = (trade.epoch, trade.seq)
            if self._taken.standing(name, at) is Standing.NEW:  # else it is on the bus a second time, or may be
                market.sums.add(trade.ts, trade.px, trade.sz, trade.event_ts)
                self._taken.add({name: [Run(at, at)]})

    def candle(self, position: str, candle: Candle) -> None:
        """Take a candle in, open or closed."""
        key = Key(candle.provider, candle.coin, candle.period)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self._series_max:
                metrics.SKIPPED.inc()
                return
            series = self._series[key] = _Series(Track())
            self.behind.add(key)
        series.position = max(series.position, position, key=place)
        if not candle.closed:
            series.shown |= series.track.open(bar_of(candle))
            return
        outcome = series.track.close(bar_of(candle))
        series.shown = True
        if outcome is Outcome.CHANGED:
            series.closed = True
        elif outcome is Outcome.BEHIND:
            self.behind.add(key)

    def replace(self, key: Key, track: Track) -> None:
        """A series as the lake has it."""
        series = self._series[key]
        series.track = track
        series.closed = series.shown = True

    def series_to_write(self) -> Iterator[tuple[str, bytes]]:
        """State before values, so that what is read was never ahead of what would be restored."""
        for key, series in self._series.items():
            if series.closed:
                saved = SavedSeries(key.provider, key.coin, key.period.seconds, series.position, series.track.saved())
                yield f"{SERIES}{key}", msgspec.json.encode(saved)
            if series.shown:
                market = self._markets.get((key.provider, key.coin))
                shown = record(key, series.track, market.sums if market else None, series.position)
                yield values_key(key.provider, key.coin, key.period), shown
            series.closed = series.shown = False

    def markets_to_write(self) -> Iterator[tuple[str, bytes]]:
        for (provider, coin), market in self._markets.items():
            if market.changed:
                runs = self._taken.runs((provider, coin))
                saved = SavedMarket(provider, coin, market.position, market.sums.state(), runs)
                yield f"{MARKETS}{provider}:{coin}", msgspec.json.encode(saved)
            market.changed = False
