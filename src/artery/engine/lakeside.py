"""What the lake knows better: the past of a series that is new here, and corrections that reach far back.

A series is folded from at most the newest `ROWS` candles and begins anew from so many once it has twice as many, so
that no look takes longer as the years go by. The record says from which candle its values come.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from artery.engine import metrics
from artery.engine.records import Key
from artery.indicators.bar import Bar, bar
from artery.indicators.track import Outcome, Track
from artery.lake.sums import Traded
from artery.model.codec import LATEST_MS
from artery.model.tickers import ticker

ROWS = 2_000
AGAIN_S, OFTEN_S, SELDOM_S = 2.0, 10.0, 600.0
YOUNG_S = 300.0
"""So long after a series was first seen its past may still be on its way to the lake."""
INSIST = 5
"""Looks that are made whether or not the lake says that something has changed, as what is awaited may be on its way."""
_COLUMNS = ["start", "rev", "open", "high", "low", "close", "volume"]


class LakeReads(Protocol):
    """What the engine reads of the lake; synchronous and thread-safe, the newest `limit` rows, oldest first."""

    def candles(self, ticker: str, period_s: int, start_ms: int, end_ms: int, limit: int) -> pa.Table: ...

    def positions(self) -> dict[str, str]: ...

    def traded(self, start_ms: int) -> Traded: ...


class Looks:
    """When each series is looked up in the lake: soon after something was found, ever more seldom where nothing is."""

    def __init__(self, monotonic: Callable[[], float], uniform: Callable[[float, float], float]) -> None:
        self._monotonic, self._uniform = monotonic, uniform
        self._due: dict[Key, float] = {}
        self._since: dict[Key, float] = {}
        self._wait_s: dict[Key, float] = {}
        self._seen: dict[Key, str] = {}
        self._insist: dict[Key, int] = {}

    def soon(self, key: Key) -> None:
        """Look at the next turn."""
        self._due[key] = 0.0
        self._since.setdefault(key, self._monotonic())
        self._wait_s[key] = AGAIN_S
        self._insist[key] = INSIST

    def due(self) -> list[Key]:
        """Those whose time has come, the longest due first."""
        now = self._monotonic()
        return sorted((key for key, at in self._due.items() if at <= now), key=lambda key: self._due[key])

    def is_seen(self, key: Key, reached: str) -> bool:
        """Whether no history has come to the lake since this series was looked up."""
        return self._seen.get(key) == reached and not self._insist.get(key)

    def looked(self, key: Key, reached: str, *, changed: bool) -> None:
        self._seen[key] = reached
        self._insist[key] = max(0, self._insist.get(key, 0) - 1)
        self.later(key, changed=changed)

    def seldom(self, key: Key) -> bool:
        """Whether it was not looked up for so long that it is, in any case."""
        return self._wait_s.get(key, 0.0) >= SELDOM_S

    def later(self, key: Key, *, changed: bool = False) -> None:
        """When to look again."""
        now = self._monotonic()
        longest_s = OFTEN_S if now - self._since.get(key, 0.0) < YOUNG_S else SELDOM_S
        self._wait_s[key] = AGAIN_S if changed else min(longest_s, 2 * self._wait_s.get(key, AGAIN_S))
        self._due[key] = now + self._wait_s[key] * self._uniform(0.75, 1.25)


def look(lake: LakeReads, key: Key, track: Track, rows: int = ROWS) -> Track | None:
    """The track as the lake has it, or None if that is how it is."""
    start_ms, limit = (track.first, 2 * rows + 1) if track.count >= rows else (0, rows)
    found = lake.candles(ticker(key.provider, key.coin), key.period.seconds, start_ms, LATEST_MS, limit)
    return reconciled(track, found, rows)


def reconciled(track: Track, found: pa.Table, rows: int = ROWS) -> Track | None:
    """`track` with what these candles of the lake add to it, or another one in its place."""
    closed = found.filter(found["closed"])
    if closed.num_rows > 2 * rows:
        return _rebuilt(track, closed.slice(closed.num_rows - rows))
    older = closed
    if track.kept:
        edge = pa.scalar(track.kept[0].start * 1_000, pa.timestamp("us", tz="UTC"))
        older = closed.filter(pc.less(closed["start"], edge))
    if (older.num_rows, pc.sum(older["rev"]).as_py() or 0) > track.behind:
        return _rebuilt(track, closed)
    outcomes = [track.close(one) for one in bars_of(closed.slice(older.num_rows))]
    return track if Outcome.CHANGED in outcomes else None


def bars_of(table: pa.Table) -> list[Bar]:
    """Candles of the lake as indicators see them, in the table's order."""
    columns = [table[name].to_pylist() for name in _COLUMNS]
    return [bar(_ms(start), *rest) for start, *rest in zip(*columns, strict=True)]


def _rebuilt(track: Track, closed: pa.Table) -> Track:
    """Folded anew from the lake; what is newer here, and not in the lake yet, stays."""
    bars = {one.start: one for one in bars_of(closed)}
    for mine in track.kept:
        known = bars.get(mine.start)
        if known is None or mine.rev >= known.rev:
            bars[mine.start] = mine
    fresh = Track.over([bars[start] for start in sorted(bars)])
    fresh.take_over(track)
    metrics.REBUILT.inc()
    return fresh


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000 + moment.microsecond // 1_000
