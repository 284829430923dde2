"""Which position of a new log belongs to which of the old one; pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from artery.bus.base import START, place

_NAMES_A_TRADE = ("CANDLE", "MARK", "CLOCK")


class Moved:
    """The entries of one stream that were moved, in their order; a few bytes for each."""

    def __init__(self) -> None:
        self._old = (array("Q"), array("Q"))
        self._new: array[int] = array("Q")
        self._new_seq: array[int] = array("Q")
        self._parts = 1

    def __len__(self) -> int:
        return len(self._new)

    def add(self, old: Sequence[str], new: Sequence[str]) -> None:
        """These follow; the new positions are in the order of the old ones."""
        for before, after in zip(old, new, strict=True):
            major, minor = _pair(before)
            self._old[0].append(major)
            self._old[1].append(minor)
            major, minor = _pair(after)
            self._parts = len(place(after))
            self._new.append(major)
            self._new_seq.append(minor)

    def count(self, position: str) -> int:
        """How many were moved up to an old position."""
        return bisect_right(range(len(self)), _pair(position), key=self._old_at)

    def count_before(self, position: str) -> int:
        return bisect_left(range(len(self)), _pair(position), key=self._old_at)

    def at_or_before(self, position: str) -> str:
        """The new position of the newest that was moved up to an old one; `START` if there is none."""
        return self._new_at(self.count(position))

    def before(self, position: str) -> str:
        return self._new_at(self.count_before(position))

    def exact(self, position: str) -> str:
        """The new position of just this one; empty if it was not moved."""
        number = self.count_before(position)
        return self._new_at(number + 1) if number < len(self) and self._old_at(number) == _pair(position) else ""

    def translated(self, fields: Mapping[str, str], moved: Mapping[str, "Moved"]) -> dict[str, str]:
        """An entry's fields, with the positions in them as they are in the new log."""
        changed = dict(fields)
        trades = moved.get("trade")
        try:
            if trades is not None and fields.get("t") in _NAMES_A_TRADE and "upTo" in fields:
                changed["upTo"] = trades.at_or_before(fields["upTo"])
            if self is moved.get("dead") and fields.get("stream") in moved:
                changed["id"] = moved[fields["stream"]].exact(fields.get("id", "")) or fields["id"]
        except (ValueError, OverflowError, KeyError):
            return dict(fields)  # not a position of ours: a foreign producer's own affair
        return changed

    def _old_at(self, number: int) -> tuple[int, int]:
        return self._old[0][number], self._old[1][number]

    def _new_at(self, count: int) -> str:
        if not count:
            return START
        major, minor = self._new[count - 1], self._new_seq[count - 1]
        return f"{major}-{minor}" if self._parts > 1 else str(major)


def _pair(position: str) -> tuple[int, int]:
    major, *rest = place(position)
    if len(rest) > 1:
        raise ValueError(position)
    return major, rest[0] if rest else 0
