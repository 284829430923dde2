"""What a crash left half written at the end of the log's file: SQLite cuts it off, here it is counted and said."""

import sqlite3
import struct
from pathlib import Path

from artery.telemetry import counter, logger

_HEADER, _FRAME_HEADER = 32, 24

_log = logger("bus")
_torn = counter("bus_torn_bytes", "bytes behind the last whole transaction of the log's file that were cut off")


def count_torn(connection: sqlite3.Connection, path: str) -> int:
    """Say how many bytes of the write-ahead log were cut off when this connection, or one before it, opened it.

    What was acknowledged is among them only if the file was cut short or the disk did not keep what it had promised.
    """
    try:
        frames = _frames(connection)
        torn = tail(Path(f"{path}-wal"), frames)
        if torn and not _stands_still(connection, frames):
            torn = 0  # another process writes there just now
    except (sqlite3.Error, OSError):
        return 0  # whatever is wrong will be said by the first use of the log
    if torn:
        _torn.inc(torn)
        _log.warning("the log's last write was torn by a crash and is cut off", path=path, bytes=torn)
    return torn


def _frames(connection: sqlite3.Connection) -> int:
    """How many frames of the write-ahead log are whole transactions."""
    return max(0, int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]))


def _stands_still(connection: sqlite3.Connection, frames: int) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    return _frames(connection) == frames


def tail(wal: Path, frames: int) -> int:
    """How many bytes follow these frames that were written after them; older ones that are still there do not count."""
    if not wal.exists():
        return 0
    with wal.open("rb") as file:
        header = file.read(_HEADER)
        size = wal.stat().st_size
        if len(header) < _HEADER:
            return len(header)
        frame = _FRAME_HEADER + _page_size(header)
        at = start = _HEADER + frames * frame
        while at < size:
            file.seek(at)
            begin = file.read(_FRAME_HEADER)
            if len(begin) == _FRAME_HEADER and begin[8:16] != header[16:24]:  # of the generation before
                break
            at += frame
        return max(0, min(at, size) - start)


def _page_size(header: bytes) -> int:
    found: int = struct.unpack(">I", header[8:12])[0]
    return found or 65_536
