"""The store in a SQLite file that several processes may share."""

import asyncio
import functools
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from artery.errors import BadInput, CannotStart
from artery.store.sqlite_file import MEMORY, connect, open_file, translate
from artery.store.sqlite_thread import Reader, Writer

KEY_MAX = 1_024
VALUE_MAX_BYTES = 1024 * 1024
SCAN_MAX = 100_000
PURGE_S = 60.0
PURGE_ROWS = 1_000
_VERSION = 1

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires_ms INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_by_expiry ON items (expires_ms) WHERE expires_ms IS NOT NULL;
"""


class SqliteStore:
    """Small shared state in one file; `:memory:` keeps it in this process only.

    TTLs are by the wall clock, so that they mean the same to every process. What has expired is absent at once and
    removed from the file by later writes.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._purged = time.monotonic()
        self._first: sqlite3.Connection | None = open_file(path, private=True)
        _prepare(self._first, path)
        self._path = path
        self._writer = Writer(path, self._connect, "artery-store-write")
        in_memory = path == MEMORY  # a second connection would be a second, empty store
        self._reader: Reader = self._writer if in_memory else Reader(path, self._connect_to_read, "artery-store-read")

    def _connect(self) -> sqlite3.Connection:
        first, self._first = self._first, None
        return first or connect(self._path)

    def _connect_to_read(self) -> sqlite3.Connection:
        return connect(self._path, read_only=True)

    def _now_ms(self) -> int:
        return int(self._clock() * 1_000)

    async def get(self, key: str) -> bytes | None:
        return await self._reader.submit(functools.partial(_get, _checked(key), self._now_ms()), durable=False)

    async def put(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        row = (_checked(key), _sized(value), self._expiry(ttl_s))
        await self._write(lambda connection: _put(connection, row))

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float | None = None) -> bool:
        return await self.compare_and_set(key, None, value, ttl_s)

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        _checked(key)
        row = None if value is None else (key, _sized(value), self._expiry(ttl_s))
        now_ms = self._now_ms()

        def work(connection: sqlite3.Connection) -> bool:
            if _get(key, now_ms, connection) != expected:
                return False
            if row is not None:
                _put(connection, row)
            elif expected is not None:
                _delete(connection, key)
            return True

        return await self._write(work)

    async def delete(self, key: str) -> bool:
        _checked(key)
        now_ms = self._now_ms()

        def work(connection: sqlite3.Connection) -> bool:
            there = _get(key, now_ms, connection) is not None
            _delete(connection, key)
            return there

        return await self._write(work)

    async def scan(self, prefix: str, limit: int = 10_000) -> Sequence[tuple[str, bytes]]:
        if prefix:
            _checked(prefix)
        work = functools.partial(_scan, prefix, min(limit, SCAN_MAX), self._now_ms())
        return await self._reader.submit(work, durable=False)

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    def _expiry(self, ttl_s: float | None) -> int | None:
        if ttl_s is None:
            return None
        if not 0 < ttl_s < 1e9:
            raise BadInput(f"a TTL is above zero and below 1e9 seconds, not {ttl_s}")
        return self._now_ms() + max(1, int(ttl_s * 1_000))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        if time.monotonic() - self._purged < PURGE_S:
            return self._writer.submit(work)
        self._purged = time.monotonic()
        now_ms = self._now_ms()

        def purge_and_work(connection: sqlite3.Connection) -> T:
            _purge(connection, now_ms)
            return work(connection)

        return self._writer.submit(purge_and_work)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise CannotStart(f"{path} was written by a newer Artery: run that one, or choose another ART_DATA_DIR")
        if version < _VERSION:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path, starting=True) from error
    except CannotStart:
        connection.close()
        raise


def _get(key: str, now_ms: int, connection: sqlite3.Connection) -> bytes | None:
    row = connection.execute(
        "SELECT value FROM items WHERE key = ? AND (expires_ms IS NULL OR expires_ms > ?)", (key, now_ms)
    ).fetchone()
    return None if row is None else row[0]


def _put(connection: sqlite3.Connection, row: tuple[str, bytes, int | None]) -> None:
    connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", row)


def _delete(connection: sqlite3.Connection, key: str) -> None:
    connection.execute("DELETE FROM items WHERE key = ?", (key,))


def _purge(connection: sqlite3.Connection, now_ms: int) -> None:
    connection.execute(
        "DELETE FROM items WHERE key IN (SELECT key FROM items WHERE expires_ms <= ? LIMIT ?)", (now_ms, PURGE_ROWS)
    )


def _scan(prefix: str, limit: int, now_ms: int, connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
    end = after_prefix(prefix)
    upper, values = ("", ()) if end is None else ("AND key < ?", (end,))
    return connection.execute(
        f"SELECT key, value FROM items WHERE key >= ? {upper} AND (expires_ms IS NULL OR expires_ms > ?)"
        " ORDER BY key LIMIT ?",
        (prefix, *values, now_ms, limit),
    ).fetchall()


def after_prefix(prefix: str) -> str | None:
    """The first text after all that begin with `prefix`, or None if there is none; texts order by code point."""
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index]) + 1
        if 0xD800 <= point <= 0xDFFF:
            point = 0xE000  # surrogates are not characters
        if point <= 0x10FFFF:
            return prefix[:index] + chr(point)
    return None


def _checked(key: str) -> str:
    if not 1 <= len(key) <= KEY_MAX:
        raise BadInput(f"a key has 1 to {KEY_MAX} characters, not {len(key)}")
    if not key.isascii() and any("\ud800" <= letter <= "\udfff" for letter in key):
        raise BadInput("a key is Unicode text, without surrogates")
    return key


def _sized(value: bytes) -> bytes:
    if len(value) > VALUE_MAX_BYTES:
        raise BadInput(f"a value has at most {VALUE_MAX_BYTES} bytes, not {len(value)}")
    return value
