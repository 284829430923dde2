"""Files of lines in which a process says what it did; what was said survives its death."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tests.faults.checker import Gap, Seen, Sent, Sight


class Line(msgspec.Struct, omit_defaults=True):
    """One thing that a process says: a writer `sent`, `acked`, `refused`, or that it `rests` with nothing under way; a
    reader `seen` (and where), or `gap`; either of them `error`, what went wrong."""

    sent: list[str] = []
    acked: list[str] = []
    refused: list[str] = []
    rests: bool = False
    seen: str = ""
    position: str = ""
    gap: str = ""
    error: str = ""
    at_ms: int = 0


class Record:
    """Appends lines; each is handed to the system at once, whole."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def say(self, *lines: Line) -> None:
        os.write(self._file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def lines(path: str | Path) -> Iterator[Line]:
    """What was said, without a last line that was cut off."""
    text = Path(path).read_bytes() if Path(path).exists() else b""
    for line in text.split(b"\n")[:-1]:
        yield msgspec.json.decode(line, type=Line)


def rests(path: str | Path) -> int:
    """How often a writer has said that it rests."""
    return sum(line.rests for line in lines(path))


def sent_of(paths: Iterable[str | Path]) -> list[Sent]:
    """What writers sent; each file is one writer's."""
    found = []
    for path in paths:
        sent = Sent()
        for line in lines(path):
            sent.ids += line.sent
            sent.acked.update(line.acked)
            sent.refused.update(line.refused)
        found.append(sent)
    return found


def sights_of(paths: Iterable[str | Path]) -> list[Sight]:
    """What readers saw; the files of a group's consumers are taken together."""
    found: list[Sight] = []
    for path in paths:
        for line in lines(path):
            if line.seen:
                found.append(Seen(line.seen, line.position))
            elif line.gap:
                found.append(Gap(line.gap))
    return found


def acked_count(path: str | Path) -> int:
    return sum(len(line.acked) for line in lines(path))


def seen_ids(paths: Iterable[str | Path]) -> set[str]:
    return {line.seen for path in paths for line in lines(path) if line.seen}
