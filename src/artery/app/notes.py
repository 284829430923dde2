"""What running services leave in the data folder: a note of where they are, and a beat that shows they live."""

import asyncio
import os
from collections.abc import Hashable
from pathlib import Path

import msgspec

from artery.telemetry import logger

BEAT_S = 1.0
_log = logger("app")


class Note(msgspec.Struct, frozen=True):
    """Where a running service can be found."""

    service: str
    pid: int
    url: str = ""


def write_note(folder: Path, note: Note) -> None:
    """Leave a note, whole or not at all."""
    path = _run(folder) / f"{note.service}.json"
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(note))
    fresh.replace(path)


def read_note(folder: Path, service: str) -> Note | None:
    """The note of a service whose process is still there, if it left one."""
    try:
        note = msgspec.json.decode((folder / "run" / f"{service}.json").read_bytes(), type=Note)
        os.kill(note.pid, 0)
    except (OSError, msgspec.DecodeError):
        return None
    return note


def remove_notes(folder: Path) -> None:
    """Forget what an earlier run has left."""
    for path in _run(folder).iterdir():
        if path.suffix in (".json", ".beat", ".new"):
            path.unlink(missing_ok=True)


class Beat:
    """Shows that this process lives: a file with its id, touched again and again."""

    def __init__(self, folder: Path, service: str) -> None:
        self._path = _run(folder) / f"{service}.beat"
        self._mine = False

    def __call__(self) -> None:
        try:
            if not self._mine:
                self._path.write_text(str(os.getpid()))
                self._mine = True
            self._path.touch()
        except OSError as error:
            _log.warning("could not leave a sign of life", exc_info=error)

    async def for_ever(self) -> None:
        """Show that this event loop turns."""
        while True:
            self()
            await asyncio.sleep(BEAT_S)


def last_beat(folder: Path, service: str, pid: int) -> Hashable:
    """A value that changes with each beat of this process, or None before its first."""
    path = folder / "run" / f"{service}.beat"
    try:
        return path.stat().st_mtime_ns if path.read_text() == str(pid) else None
    except OSError:
        return None


def _run(folder: Path) -> Path:
    path = folder / "run"
    path.mkdir(parents=True, exist_ok=True)
    return path
