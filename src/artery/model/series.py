"""What `seq` counts, and the place of an event in it."""

import re

import msgspec

from artery.errors import BadInput

_POSITION = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})\.([0-9]{1,19})", re.ASCII)


class Position(msgspec.Struct, frozen=True, order=True):
    """The place of an event in its series; opaque to clients, who only hand it back."""

    epoch: int
    seq: int
    event_ts: int

    @staticmethod
    def parse(text: str) -> "Position":
        match = _POSITION.fullmatch(text)
        if not match:
            raise BadInput(f"{text!r:.60} is not a position: hand back one that an event carried")
        epoch, seq, event_ts = match.groups()
        return Position(int(epoch), int(seq), int(event_ts))

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}.{self.event_ts}"

    def follows(self, other: "Position") -> bool:
        """Whether nothing lies between `other` and this one."""
        return self.epoch == other.epoch and self.seq == other.seq + 1
