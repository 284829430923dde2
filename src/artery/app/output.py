"""What services say: all of it into a file of bounded size, what people should know to the console."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

FILE_MAX_BYTES = 8 * 1024 * 1024
LINE_MAX_BYTES = 16 * 1024
LINES_MAX, LINES_PER_S = 20, 10.0

_LEVEL = re.compile(r"\[(debug|info|warning|error|critical)\s*\]|\"level\": ?\"(debug|info|warning|error|critical)\"")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOUD = ("warning", "error", "critical")


def level_of(line: str) -> str:
    """The level of a log line; empty for a line that is none (a library's own output)."""
    found = _LEVEL.search(line, 0, 200)
    return (found[1] or found[2]) if found else ""


class Lines:
    """Cuts bytes into lines; a line without an end is cut at its limit."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[str]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_MAX_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        return [_COLOUR.sub("", line[:LINE_MAX_BYTES].decode(errors="replace").rstrip()) for line in whole]


class LogFile:
    """A file that never grows past its limit: the older half moves to `<name>.1`."""

    def __init__(self, path: Path, max_bytes: int = FILE_MAX_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._half = path, max_bytes // 2
        self._file: IO[bytes] = path.open("ab")

    def write(self, line: str) -> None:
        """Add a line; a full disk loses lines, never the process."""
        try:
            if self._file.tell() > self._half:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._file = self._path.open("ab")
            self._file.write(line.encode() + b"\n")
            self._file.flush()
        except (OSError, ValueError):
            self._reopen()

    def close(self) -> None:
        self._file.close()

    def _reopen(self) -> None:
        try:
            self._file.close()
            self._file = self._path.open("ab")
        except OSError:
            self._file = Path(os.devnull).open("ab")  # noqa: SIM115 closed by close()


class Loud:
    """Lets warnings and errors through to people, so many a second and no more."""

    def __init__(self, say: Callable[[str], None], everything: bool = False) -> None:
        self._say, self._everything = say, everything
        self._left, self._at, self._held = float(LINES_MAX), 0.0, 0

    def take(self, line: str, now: float) -> None:
        if not line or not (self._everything or level_of(line) in _LOUD):
            return
        self._left = min(LINES_MAX, self._left + (now - self._at) * LINES_PER_S)
        self._at = now
        if self._left < 1:
            self._held += 1
            return
        self._left -= 1
        if self._held:
            self._say(f"({self._held} more such lines are in its log)")
            self._held = 0
        self._say(line)
