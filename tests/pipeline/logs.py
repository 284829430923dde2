"""What a bus's reader gives, from a list: for planning and decoding, which need no file."""

from collections.abc import Mapping, Sequence

import msgspec

from artery.bus.base import place
from artery.errors import PositionLost


class ListReader:
    """The bus's reader over lists of entries; `positions` names them, 1, 2, 3 … unless told otherwise."""

    def __init__(self, streams: Mapping[str, Sequence[tuple[str, Mapping[str, str]]]], first: str = "0") -> None:
        self.streams = {name: list(entries) for name, entries in streams.items()}
        self.first = first
        self.reads = 0

    def head(self, stream: str) -> str:
        entries = self.streams.get(stream, [])
        return entries[-1][0] if entries else "0"

    def read_raw(self, stream: str, after: str, limit: int, up_to: str = "") -> list[tuple[str, bytes]]:
        self.reads += 1
        if place(after) < place(self.first):
            raise PositionLost("trimmed", first=self.first)
        if place(after) > place(self.head(stream)):
            raise PositionLost("not the log it was", first=self.first)
        inside = [
            (at, msgspec.json.encode(fields))
            for at, fields in self.streams.get(stream, [])
            if place(at) > place(after) and (not up_to or place(at) <= place(up_to))
        ]
        return inside[:limit]

    def step(self, after: str, limit: int) -> str | None:
        return None if len(place(self.head("trade"))) > 1 else str(place(after)[0] + limit)

    def close(self) -> None:
        """Nothing is open."""
