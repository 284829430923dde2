"""Read the log without an event loop: what Spark's workers use."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Protocol

from artery.bus import sqlite_log as log
from artery.bus.base import START
from artery.bus.sqlite_schema import check_base, number_of, stream_exists, table_of
from artery.errors import BadSetting
from artery.store.sqlite_file import connect, file_of, translate


class BusReader(Protocol):
    """Raw entries for a process that keeps its own position; it can be pickled, and connects on first use."""

    def head(self, stream: str) -> str:
        """The newest position, or `START`."""
        ...

    def read_raw(self, stream: str, after: str, limit: int, up_to: str = "") -> list[tuple[str, bytes]]:
        """(position, JSON object of the fields) after a position, up to and including another; or `PositionLost`."""
        ...

    def step(self, after: str, limit: int) -> str | None:
        """The farthest position that has at most so many entries between this one and itself, also if there is none
        yet; None if positions alone do not tell."""
        ...

    def close(self) -> None: ...


class SqliteReader:
    """Reads a log in a SQLite file, which need not exist yet."""

    def __init__(self, path: str, base: str = "md_stream") -> None:
        self._path = path
        self._base = check_base(base)
        self._connection: sqlite3.Connection | None = None

    def __reduce__(self) -> tuple[type["SqliteReader"], tuple[str, str]]:
        return SqliteReader, (self._path, self._base)

    def head(self, stream: str) -> str:
        table = table_of(self._base, stream)
        try:
            connection = self._open(table)
            return START if connection is None else str(log.ends(connection, table)[1])
        except sqlite3.Error as error:
            self.close()
            raise translate(error, self._path) from error

    def read_raw(self, stream: str, after: str, limit: int, up_to: str = "") -> list[tuple[str, bytes]]:
        table, number = table_of(self._base, stream), number_of(after)
        last = number_of(up_to) if up_to else None
        try:
            connection = self._open(table)
            if connection is None:
                return log.nothing(table, number)
            return [(str(at), line) for at, line in log.read(connection, table, number, limit, last)]
        except sqlite3.Error as error:
            self.close()
            raise translate(error, self._path) from error

    def step(self, after: str, limit: int) -> str | None:
        return str(number_of(after) + limit)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _open(self, table: str) -> sqlite3.Connection | None:
        """A connection, or None while file or stream do not exist."""
        if self._connection is None:
            if not Path(self._path).exists():
                return None
            self._connection = connect(self._path, read_only=True)
        ready = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'streams'").fetchone()
        return self._connection if ready and stream_exists(self._connection, table) else None


def open_reader(url: str, base: str = "md_stream") -> BusReader:
    """`sqlite:///path` → a reader of that file, `redis://…` and `kafka://…` → of that server."""
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return SqliteReader(file_of(url), base)
    if scheme in ("redis", "rediss", "unix"):
        from artery.bus.redis_reader import RedisReader

        return RedisReader(url, base)
    if scheme == "kafka":
        from artery.bus.kafka_reader import KafkaReader

        return KafkaReader(url, base)
    raise BadSetting(
        "the log cannot be at such an address: "
        "ART_BUS_URL takes sqlite:///path, redis://host:6379/0, kafka://host:9092, or nothing"
    )
