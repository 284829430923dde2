"""Consecutive events of one series as bytes for the wire, with the place of each beside them. Pure."""

from collections.abc import Sequence

import msgspec
import numpy as np

from artery.gateway.cells import Numbers
from artery.gateway.frames import Frame
from artery.model.series import Position


class Stretch(msgspec.Struct, frozen=True, eq=False):
    """Events in the order of their places; `moments` are the events' own times, which `since.ms` speaks of."""

    epochs: Numbers
    seqs: Numbers
    times: Numbers
    moments: Numbers
    ends: Numbers
    """Where each frame ends in `wire`."""
    wire: bytes

    def __len__(self) -> int:
        return len(self.ends)

    def place(self, index: int) -> Position:
        return Position(int(self.epochs[index]), int(self.seqs[index]), int(self.times[index]))

    def begin(self, index: int) -> int:
        """Where a frame begins in `wire`."""
        return int(self.ends[index - 1]) if index else 0

    def bytes_of(self, low: int, high: int) -> bytes:
        """The frames from `low` up to `high`, which is not among them."""
        return self.wire[self.begin(low) : self.begin(high)]

    def fits(self, low: int, high: int, bytes_max: int) -> int:
        """How far from `low` one may go with so many bytes; at least one frame, at most up to `high`."""
        found = int(np.searchsorted(self.ends, self.begin(low) + bytes_max, side="right"))
        return min(high, max(low + 1, found))

    def first_at(self, moment_ms: int) -> int:
        """The first event whose own time is not before this one; the length where there is none."""
        late = self.moments >= moment_ms
        return int(late.argmax()) if late.any() else len(self)


class Part(msgspec.Struct, frozen=True):
    """Some consecutive events of a stretch, from `low` up to `high`, which is not among them."""

    stretch: Stretch
    low: int
    high: int

    @property
    def last(self) -> Position:
        return self.stretch.place(self.high - 1)


def stretch_of(frames: Sequence[tuple[Position, int, Frame]]) -> Stretch:
    """Single frames, each with its place and its event's own time, as one stretch."""
    places = np.array([(at.epoch, at.seq, at.event_ts, moment) for at, moment, _ in frames], np.int64).reshape(-1, 4)
    return _stretch(np.ascontiguousarray(places.T), [frame.wire for _, _, frame in frames])


def joined(stretches: Sequence[Stretch]) -> Stretch:
    """Stretches that follow each other as one."""
    if len(stretches) == 1:
        return stretches[0]
    none = np.zeros(0, np.int64)
    columns = [
        np.concatenate([none, *(getattr(each, name) for each in stretches)])
        for name in ("epochs", "seqs", "times", "moments")
    ]
    begins = np.cumsum([0, *(len(each.wire) for each in stretches)])
    ends = np.concatenate([none, *(each.ends + begin for each, begin in zip(stretches, begins, strict=False))])
    return Stretch(columns[0], columns[1], columns[2], columns[3], ends, b"".join([each.wire for each in stretches]))


def in_order(earlier: Stretch, low: int, later: Stretch) -> bool:
    """Whether `later` goes on behind what `earlier` has from `low` on."""
    if low >= len(earlier) or not len(later):
        return True
    return earlier.place(len(earlier) - 1) < later.place(0)


def merged(earlier: Stretch, low: int, later: Stretch) -> Stretch:
    """What `earlier` has from `low` on, and `later`, in the order of their places."""
    columns = [
        np.concatenate((getattr(earlier, name)[low:], getattr(later, name)))
        for name in ("epochs", "seqs", "times", "moments")
    ]
    wires = [part.bytes_of(i, i + 1) for part, first in ((earlier, low), (later, 0)) for i in range(first, len(part))]
    order = np.lexsort((columns[1], columns[0]))
    return _stretch([column[order] for column in columns], [wires[i] for i in order])


def _stretch(columns: Sequence[Numbers] | Numbers, wires: Sequence[bytes]) -> Stretch:
    ends = np.cumsum(np.array([len(wire) for wire in wires], np.int64))
    return Stretch(columns[0], columns[1], columns[2], columns[3], ends, b"".join(wires))
