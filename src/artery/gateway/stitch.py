"""Joins the parts of one series (the lake's, the bus's, what was held live) without a hole or a repeat. Pure."""

from typing import Generic, TypeVar

import msgspec

from artery.model.series import Position

T = TypeVar("T")


class Hole(msgspec.Struct, frozen=True):
    """Something is missing behind `after`, up to and with `to`."""

    after: Position
    to: Position


class Stitch(Generic[T]):
    """Give it the items of each part in order, oldest part first; parts may overlap, and what was seen is left out.

    `after` is the last position that the client has. Inside an epoch `seq` is contiguous, so a jump is a hole; the
    first item of a new epoch has seq 1, and a MARK tells of what was lost between epochs.
    """

    def __init__(self, after: Position | None = None) -> None:
        self.last = after

    def take(self, place: Position, item: T) -> list[Hole | T]:
        """What to deliver for this item: nothing if it was there before, and a hole in front of it if there is one."""
        last = self.last
        if last is not None and (place.epoch, place.seq) <= (last.epoch, last.seq):
            return []
        self.last = place
        if last is None or place.follows(last) or (place.epoch != last.epoch and place.seq == 1):
            return [item]
        return [Hole(last, Position(place.epoch, place.seq - 1, place.event_ts)), item]
