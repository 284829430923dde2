"""Joins the parts of one series (the lake's, the bus's, what was held live) without a hole or a repeat. Pure."""

from typing import Generic, TypeVar

import msgspec
import numpy as np

from artery.gateway.stretch import Part, Stretch
from artery.model.series import Position

T = TypeVar("T")


class Hole(msgspec.Struct, frozen=True):
    """Something is missing behind `after`, up to and with `to`; `turn` if that is the change of leaders alone."""

    after: Position
    to: Position
    turn: bool = False


class Stitch(Generic[T]):
    """Give it the items of each part in order, oldest part first; parts may overlap, and what was seen is left out.

    `after` is the last position that the client has; without it the client begins with whatever comes first. Inside
    an epoch `seq` is contiguous, so a jump is a hole. The first item of an epoch has seq 1: it goes on from the last
    of the epoch before only in a part that is known to follow on what came before it, else it is a hole as well.
    """

    def __init__(self, after: Position | None = None) -> None:
        self.last = after
        self.seen: Position | None = None
        """The newest place of all that was given, also of what was left out."""
        self._from = Position(0, 0, 0)
        self._follows = after is None

    @property
    def is_ahead(self) -> bool:
        """Whether nothing that was given reaches as far as the client says it is."""
        return self.last is not None and (self.seen is None or _order(self.seen) < _order(self.last))

    def leap(self, last: Position | None) -> None:
        """The client was told that it stands here now, wherever it was; the next part follows on this."""
        self.last, self._follows = last, True

    def torn(self, from_ms: int = 0) -> None:
        """The next part does not follow on the last: something between the two may be lost."""
        self._follows = False
        self._from = Position(0, 0, from_ms)

    def take(self, place: Position, item: T) -> list[Hole | T]:
        """What to deliver for this item: nothing if it was there before, and a hole in front of it if there is one."""
        last = self.last
        self.seen = place if self.seen is None else max(self.seen, place)
        if last is not None and _order(place) <= _order(last):
            self._follows = True  # the part reaches back to what the client has
            return []
        hole = self._hole(last, place)
        self.last, self._follows = place, True
        return [item] if hole is None else [hole, item]

    def take_all(self, part: Part) -> list[Hole | Part]:
        """The same for many items at once."""
        stretch, low, high, last = part.stretch, part.low, part.high, self.last
        if low < high:
            self.seen = part.last if self.seen is None else max(self.seen, part.last)
        if last is not None and low < high:
            epochs, seqs = stretch.epochs[low:high], stretch.seqs[low:high]
            newer = (epochs > last.epoch) | ((epochs == last.epoch) & (seqs > last.seq))
            old = int(newer.argmax()) if newer.any() else high - low
            self._follows = self._follows or old > 0
            low += old
        if low >= high:
            return []
        found: list[Hole | Part] = []
        begin = low
        for index in (low, *(low + 1 + _jumps(stretch, low, high)).tolist()):
            hole = self._hole(self.last if index == low else stretch.place(index - 1), stretch.place(index))
            if hole is not None:
                found += [Part(stretch, begin, index), hole] if index > begin else [hole]
                begin = index
            self._follows = True
        self.last = stretch.place(high - 1)
        return [*found, Part(stretch, begin, high)]

    def _hole(self, last: Position | None, place: Position) -> Hole | None:
        before = Position(place.epoch, place.seq - 1, place.event_ts)
        if last is None:
            return None if self._follows else Hole(self._from, before)
        if place.follows(last):
            return None
        turn = self._follows and place.epoch != last.epoch and place.seq == 1
        return Hole(last, before, turn)


def _order(place: Position) -> tuple[int, int]:
    return place.epoch, place.seq


def _jumps(stretch: Stretch, low: int, high: int) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Where, counted from `low`, an event is not followed by the next of its epoch."""
    same = np.diff(stretch.epochs[low:high]) == 0
    return np.flatnonzero(~(same & (np.diff(stretch.seqs[low:high]) == 1)))
