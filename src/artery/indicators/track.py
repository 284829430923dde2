"""One series of candles and its indicators, as candles close, open and are corrected. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from artery.indicators.bar import Bar
from artery.indicators.standard import NOTHING, WARM, State, Values, step

KEEP = 64
"""Closed candles that can be corrected without the lake: an hour of minutes, as long as the pipeline keeps them."""
OPEN_MAX = 4


class Outcome(Enum):
    """What a closed candle did: nothing, a change, or a change behind what is kept, which only the lake can make."""

    SAME = "same"
    CHANGED = "changed"
    BEHIND = "behind"


class Saved(msgspec.Struct, frozen=True, array_like=True):
    """All that a track must keep: the first candle's start, how many candles (and the sum of their revisions) the
    state `base` holds, and the closed candles after those."""

    first: int = 0
    count: int = 0
    revs: int = 0
    base: State = State()
    kept: tuple[Bar, ...] = ()


class Track:
    """The indicators of one series: whatever the order of corrections, the values are those of a fold from `first`."""

    def __init__(self, saved: Saved | None = None, keep: int = KEEP) -> None:
        saved = saved or Saved()
        self._keep = keep
        self._first = saved.first
        self._count, self._revs, self._base = saved.count, saved.revs, saved.base
        self._kept = list(saved.kept)
        self._open: list[Bar] = []
        self._tip, self._values = self._base, NOTHING
        self._refold()

    @staticmethod
    def over(bars: Sequence[Bar], keep: int = KEEP) -> "Track":
        """The track of these closed candles, oldest first."""
        track = Track(keep=keep)
        for bar in bars:
            track.close(bar)
        return track

    @property
    def first(self) -> int:
        """Where the indicators begin: a batch that begins with the same candle has the same bits."""
        return self._first

    @property
    def behind(self) -> tuple[int, int]:
        """How many candles lie before those that are kept, and the sum of their revisions."""
        return self._count, self._revs

    @property
    def kept(self) -> Sequence[Bar]:
        return tuple(self._kept)

    @property
    def count(self) -> int:
        return self._count + len(self._kept)

    @property
    def warm(self) -> bool:
        """Whether every indicator has a value."""
        return self.count >= WARM

    def saved(self) -> Saved:
        return Saved(self._first, self._count, self._revs, self._base, tuple(self._kept))

    def close(self, bar: Bar) -> Outcome:
        """Take a closed candle in: the next one, one that was missing, or a higher revision of one that is known."""
        if not self._kept or bar.start > self._kept[-1].start:
            self._append(bar)
            return Outcome.CHANGED
        at = bisect_left(self._kept, bar.start, key=lambda known: known.start)
        if self._kept[at].start == bar.start:
            if bar.rev <= self._kept[at].rev:
                return Outcome.SAME
            self._kept[at] = bar
        elif at == 0 and self._count:
            return Outcome.BEHIND if bar.start >= self._first else Outcome.SAME
        else:
            self._kept.insert(at, bar)
            self._first = min(self._first, bar.start)
        self._refold()
        self._shift()
        return Outcome.CHANGED

    def open(self, bar: Bar) -> bool:
        """Take an open candle in; whether it changed anything. The one before may not have closed yet."""
        if self._kept and bar.start <= self._kept[-1].start:
            return False
        found = [known for known in self._open if known.start != bar.start]
        self._open = sorted([*found, bar], key=lambda known: known.start)[-OPEN_MAX:]
        return True

    def take_over(self, other: "Track") -> None:
        """Keep the open candles of the track that this one replaces."""
        for bar in other._open:
            self.open(bar)

    def closed_values(self) -> tuple[Bar, Values] | None:
        """The newest closed candle and its values."""
        return (self._kept[-1], self._values) if self._kept else None

    def open_values(self) -> tuple[Bar, Values] | None:
        """The newest open candle and its values, as if it closed now."""
        if not self._open:
            return None
        return self._open[-1], _over(self._tip, self._open)[1]

    def _append(self, bar: Bar) -> None:
        if not self._kept:
            self._first = bar.start
        self._kept.append(bar)
        self._tip, self._values = step(self._tip, bar)
        self._open = [known for known in self._open if known.start > bar.start]
        self._shift()

    def _shift(self) -> None:
        while len(self._kept) > self._keep:
            oldest = self._kept.pop(0)
            self._base, _ = step(self._base, oldest)
            self._count += 1
            self._revs += oldest.rev

    def _refold(self) -> None:
        self._tip, self._values = _over(self._base, self._kept)


def _over(state: State, bars: Iterable[Bar]) -> tuple[State, Values]:
    values = NOTHING
    for bar in bars:
        state, values = step(state, bar)
    return state, values
