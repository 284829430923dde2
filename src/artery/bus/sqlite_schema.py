"""The tables of the log, and what may name a stream, a group and a position in them."""

import re
import sqlite3
from collections.abc import Sequence

from artery.errors import BadInput, BadSetting, CannotStart
from artery.store.sqlite_file import translate

VERSION = 2

_BASE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_STREAM = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)
_POSITIONS = re.compile(r"[0-9]{1,18}(?:,[0-9]{1,18})*", re.ASCII)
NAME_MAX = 200

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS streams (
    name TEXT PRIMARY KEY,
    trimmed INTEGER NOT NULL DEFAULT 0,     -- newest position that was removed
    trimmed_ms INTEGER NOT NULL DEFAULT 0,  -- when it had been appended
    lost INTEGER NOT NULL DEFAULT 0         -- removed before a required group had it
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fences (
    base TEXT NOT NULL, writer TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (base, writer)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS groups (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    name TEXT NOT NULL,
    last INTEGER NOT NULL,                  -- newest position that was given out
    UNIQUE (stream, name)
);
CREATE TABLE IF NOT EXISTS pending (
    group_id INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    tries INTEGER NOT NULL,
    given_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, first)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requeued (
    stream TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (stream, number)  -- dead letters
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
COMMIT;
"""

_BLOCKS = """CREATE TABLE IF NOT EXISTS "{}" (
    first INTEGER PRIMARY KEY,              -- position of the first entry
    size INTEGER NOT NULL,                  -- how many entries
    ms INTEGER NOT NULL,                    -- when they were appended; never falls
    body BLOB NOT NULL                      -- one JSON object a line
)"""


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables if they are not there, or `CannotStart`."""
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found < VERSION:
            connection.executescript(_SCHEMA)
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path, starting=True) from error
    if found > VERSION:
        connection.close()
        raise CannotStart(f"{path} was written by a newer Artery: run that one, or choose another ART_DATA_DIR")


def make_stream(connection: sqlite3.Connection, table: str) -> None:
    """Make the table of a stream, inside the caller's transaction."""
    connection.execute(_BLOCKS.format(table))
    connection.execute("INSERT OR IGNORE INTO streams (name) VALUES (?)", (table,))


def stream_exists(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM streams WHERE name = ?", (table,)).fetchone() is not None


def check_base(base: str) -> str:
    if not _BASE.fullmatch(base):
        raise BadSetting(f"{base!r:.40} cannot begin a stream's name: ART_BUS_BASE takes letters, digits, _ . and -")
    return base


def table_of(base: str, stream: str) -> str:
    """`md_stream`, `trade` → `md_stream:trade`; safe to stand between double quotes in SQL."""
    if not _STREAM.fullmatch(stream):
        raise BadInput(f"{stream!r:.40} is not a stream: its name has small letters, digits and _")
    return f"{base}:{stream}"


def number_of(position: str) -> int:
    """A position as the log counts: `12` → 12."""
    if not _POSITION.fullmatch(position):
        raise BadInput(f"{position!r:.40} is not a position of this log: hand back one that it gave")
    return int(position)


def numbers_of(positions: Sequence[str]) -> list[int]:
    """Many positions, looked at all at once: that is an ack's whole work in this thread."""
    joined = ",".join(positions)
    if _POSITIONS.fullmatch(joined) and joined.count(",") == len(positions) - 1:
        return list(map(int, positions))
    return [number_of(position) for position in positions]


def check_name(name: str, what: str) -> str:
    if not 1 <= len(name) <= NAME_MAX:
        raise BadInput(f"the name of a {what} has 1 to {NAME_MAX} characters, not {len(name)}")
    return name
