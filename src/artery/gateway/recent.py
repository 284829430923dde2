"""Candles that the lake does not have yet: what the bus holds after the lake's newest commit, in memory. Pure."""

from collections.abc import Iterable
from itertools import islice

import msgspec

from artery.bus.base import place
from artery.gateway.rows import CandleRow
from artery.gateway.span import Span

ROWS_MAX = 300_000

Series = tuple[str, str, int]
"""Provider, market, and the length of its candles in seconds."""

_Key = tuple[Series, int]


class _Held(msgspec.Struct, frozen=True, gc=False):
    """The newest version of a candle, when it was made and where on the bus it stands."""

    row: CandleRow
    event_ts: int
    where: tuple[int, ...]

    @property
    def version(self) -> tuple[bool, int, int]:
        return (*self.row.version, self.event_ts)


class Recent:
    """Newer `(closed, rev, eventTs)` wins. Bounded: of too many, those written first go.

    Candles of `candle` and of `history` are kept apart, as the lake takes up the two at their own pace.
    """

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._written: dict[str, dict[_Key, _Held]] = {}
        self._series: dict[Series, dict[int, list[str]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, stream: str, position: str, series: Series, rows: Iterable[CandleRow], event_ts: int) -> None:
        """Candles of one entry, in the order of the stream."""
        where = place(position)
        for row in rows:
            self._put(stream, (series, row.start), _Held(row, event_ts, where))
        while self._count > self._rows_max:
            # All at once: to find the first key of a table whose first keys were taken out takes longer each time.
            largest = max(self._written, key=lambda name: len(self._written[name]))
            for key in list(islice(self._written[largest], self._count - self._rows_max)):
                self._forget(largest, key)

    def committed(self, stream: str, position: str) -> None:
        """The lake has this stream up to here: what it has is not needed any more."""
        limit = place(position)
        written = self._written.get(stream, {})
        done: list[_Key] = []
        for key, held in written.items():
            if held.where > limit:
                break
            done.append(key)
        for key in done:
            self._forget(stream, key)

    def rows(self, provider: str, coin: str, period_s: int, span: Span) -> list[CandleRow]:
        """Candles of a stretch, oldest first."""
        series = (provider, coin, period_s)
        found = self._series.get(series, {})
        starts = span.cut(sorted(start for start in found if span.start_ms <= start < span.end_ms))
        return [self._best((series, start), found[start]) for start in starts]

    def _put(self, stream: str, key: _Key, held: _Held) -> None:
        written = self._written.setdefault(stream, {})
        old = written.get(key)
        if old is not None and held.version < old.version:
            return
        # Taken out and put in again: the order of the table is the order of writing.
        written.pop(key, None)
        written[key] = held
        if old is None:
            self._count += 1
            self._series.setdefault(key[0], {}).setdefault(key[1], []).append(stream)

    def _best(self, key: _Key, streams: list[str]) -> CandleRow:
        return max((self._written[stream][key] for stream in streams), key=lambda held: held.version).row

    def _forget(self, stream: str, key: _Key) -> None:
        del self._written[stream][key]
        self._count -= 1
        starts = self._series[key[0]]
        starts[key[1]].remove(stream)
        if not starts[key[1]]:
            del starts[key[1]]
        if not starts:
            del self._series[key[0]]
