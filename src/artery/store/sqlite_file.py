"""One SQLite file: how it is opened, and what its errors mean to people."""

import os
import sqlite3
from pathlib import Path

from artery.errors import ArteryError, BadInput, BadSetting, CannotStart, Unavailable

MEMORY = ":memory:"
BUSY_S = 2.5
JOURNAL_MAX_BYTES = 64 * 1024 * 1024
_SCHEME = "sqlite://"


def file_of(url: str) -> str:
    """`sqlite:///data/bus.db` → `/data/bus.db`; `sqlite://:memory:` → `:memory:`."""
    rest = url.removeprefix(_SCHEME)
    if not url.startswith(_SCHEME) or not rest.strip("/"):
        raise BadSetting(f"{url!r:.60} names no file: write sqlite:///folder/file.db")
    return MEMORY if rest == MEMORY else "/" + rest.lstrip("/")


def open_file(path: str, *, private: bool = False) -> sqlite3.Connection:
    """A connection that may write; makes folder and file if need be, or `CannotStart`."""
    try:
        if path != MEMORY:
            _make(Path(path), private=private)
        return connect(path)
    except sqlite3.Error as error:
        raise translate(error, path, starting=True) from error
    except OSError as error:
        raise CannotStart(
            f"{path} cannot be made ({error.strerror or error}): choose a folder that may be written with ART_DATA_DIR"
        ) from error


def _make(path: Path, *, private: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600 if private else 0o644))


def connect(path: str, *, read_only: bool = False, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection in WAL mode whose commits are synced; the file must exist. Errors are SQLite's own."""
    name = path if path == MEMORY else f"{Path(path).absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        name, uri=path != MEMORY, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_MAX_BYTES}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def primary(error: sqlite3.Error) -> int:
    """SQLite's code without its details: SQLITE_IOERR_WRITE → SQLITE_IOERR."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def translate(error: sqlite3.Error, path: str, *, starting: bool = False) -> ArteryError:
    """What a SQLite error means, in one sentence that says what to do."""
    code = primary(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return CannotStart(f"{path} is damaged ({error}): stop Artery, move the file away and start again")
    if code == sqlite3.SQLITE_TOOBIG:
        return BadInput(f"{path} cannot hold a value of that size: send less at once")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable(f"{path} is locked by another process: try again, or end the program that holds it open")
    return (CannotStart if starting else Unavailable)(_sentence(code, error, path))


def _sentence(code: int, error: sqlite3.Error, path: str) -> str:
    if code == sqlite3.SQLITE_FULL:
        return f"the disk that holds {path} is full: free some space on it"
    if code == sqlite3.SQLITE_READONLY:
        return f"{path} may not be written: make it writable, or choose another folder with ART_DATA_DIR"
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return f"{path} cannot be opened: check that its folder exists and may be written"
    if code == sqlite3.SQLITE_IOERR:
        return f"reading or writing {path} failed ({error}): check the disk and its free space"
    return f"{path} cannot be used ({error}): check the file and its folder"
