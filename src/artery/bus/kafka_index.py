"""Which offsets of a topic are entries: the others are the broker's own markers, and what was undone; pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from artery.bus.runs import ranges


class Index:
    """The entries from `start` up to (not including) `end`, as stretches without a hole; a few bytes for each."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self._first = array("q")
        self._last = array("q")
        self._before = array("q")
        """How many entries come before each stretch."""
        self._total = 0

    def add(self, offsets: Iterable[int], end: int) -> None:
        """These are the entries from here to `end`."""
        for low, high in ranges(offsets):
            if self._last and self._last[-1] == low - 1:
                self._last[-1] = high
            else:
                self._first.append(low)
                self._last.append(high)
                self._before.append(self._total)
            self._total += high - low + 1
        self.end = end

    def count(self, low: int, high: int | None = None) -> int:
        """Entries from `low` to before `high`."""
        return max(0, self._below(self.end if high is None else high) - self._below(low))

    def _below(self, offset: int) -> int:
        """Entries before an offset."""
        at = bisect_right(self._first, offset) - 1
        if at < 0:
            return self._before[0] if self._before else self._total
        return self._before[at] + min(offset, self._last[at] + 1) - self._first[at]

    def nth(self, low: int, number: int) -> int:
        """The offset of an entry, counted from 0 at `low`; -1 if there are not so many."""
        wanted = self._below(low) + number
        if not 0 <= wanted < self._total:
            return -1
        at = bisect_right(self._before, wanted) - 1
        return self._first[at] + wanted - self._before[at]

    def newest(self) -> int:
        """The offset of the newest entry; -1 if there is none."""
        return self._last[-1] if self._last else -1

    def forget(self, low: int) -> None:
        """Let go of what lies before `low`, if that is much."""
        at = bisect_left(self._last, low)
        if at > 1_000:
            self._first, self._last, self._before = self._first[at:], self._last[at:], self._before[at:]
            self.start = low
