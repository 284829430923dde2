"""Read streams in Redis without an event loop: what Spark's workers use."""

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import exceptions
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection

from artery.bus.redis_ends import Ends, ends_of, entries_of, full, is_missing, page, short
from artery.bus.redis_streams import READ_MAX
from artery.bus.sqlite_schema import check_base, table_of
from artery.store.redis_link import TOGETHER, together
from artery.store.redis_server import CALL_S, is_full, server_of

_encode = msgspec.json.Encoder().encode


class RedisReader:
    """Raw entries for a process that keeps its own position; connects on first use, and again after an error."""

    def __init__(self, url: str, base: str = "md_stream") -> None:
        self._url = url
        self._base = check_base(base)
        self._server = server_of(url, "ART_BUS_URL")
        self._connection: Any = None

    def __reduce__(self) -> tuple[type["RedisReader"], tuple[str, str]]:
        return RedisReader, (self._url, self._base)

    def head(self, stream: str) -> str:
        """The newest position, or `START`."""
        ends, _ = self._look(stream, [])
        return short(ends.head)

    def read_raw(self, stream: str, after: str, limit: int, up_to: str = "") -> list[tuple[str, bytes]]:
        """(position, JSON object of the fields) after a position, up to and including another; or `PositionLost`."""
        key, at = table_of(self._base, stream), full(after)
        limit = max(0, min(limit, READ_MAX))
        end = full(up_to) if up_to else "+"
        command = ("XRANGE", key, at, end, "COUNT", limit + 1)
        check = ("XRANGE", key, at, at)  # it may lie behind the end, and still has to exist
        ends, (reply, there) = self._look(stream, [command, check])
        found = page(key, ends, at, [*there, *(row for row in reply if row[0] != at)], limit)
        return [(entry.id, _encode(entry.fields)) for entry in entries_of(found)]

    def step(self, after: str, limit: int) -> str | None:
        """An id says when, not how many."""
        return None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(exceptions.RedisError, OSError):
                connection.disconnect()

    def _look(self, stream: str, commands: Sequence[tuple[Any, ...]]) -> tuple[Ends, list[Any]]:
        """The stream's ends and the replies of some commands, of one moment."""
        info = ("XINFO", "STREAM", table_of(self._base, stream))
        trimmed = ("HGET", f"{self._base}:meta:trimmed", stream)
        try:
            said, note, *replies = self._twice([info, trimmed, *commands])
        except (exceptions.RedisError, OSError) as error:
            self.close()
            raise self._server.translate(error) from error
        except BaseException:
            self.close()
            raise
        failed = [reply for reply in (said, *replies) if isinstance(reply, Exception) and not is_missing(reply)]
        if failed:
            raise self._server.translate(failed[0]) from failed[0]
        return ends_of(said, note), replies

    def _twice(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A connection from before may have been closed by now: then, once, on a new one."""
        used = self._connection is not None
        try:
            return self._atomic(commands)
        except exceptions.ConnectionError:
            if not used:
                raise
            self.close()
            return self._atomic(commands)

    def _atomic(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        connection = self._open()
        connection.send_packed_command(connection.pack_commands([("MULTI",), *commands, ("EXEC",)]), check_health=False)
        *queued, done = [self._reply(connection) for _ in range(len(commands) + 2)]
        refused = [reply for reply in queued if isinstance(reply, Exception)]
        if refused and is_full(refused[0]):
            connection.send_command("EVAL", TOGETHER.text, 0, together(commands), check_health=False)
            refused, done = [], self._reply(connection)
        if refused or isinstance(done, Exception):
            raise refused[0] if refused else done
        return list(done)

    def _reply(self, connection: Any) -> Any:
        """A reply, or the exception in its place."""
        try:
            return connection.read_response()
        except exceptions.ResponseError as error:
            return error

    def _open(self) -> Any:
        if self._connection is None:
            server = self._server
            kind: Any = UnixDomainSocketConnection if server.unix else SSLConnection if server.tls else Connection
            connection = kind(
                **server.options,
                protocol=2,
                decode_responses=True,
                encoding_errors="replace",
                driver_info=None,
                socket_timeout=CALL_S,
                socket_connect_timeout=CALL_S,
            )
            self._connection = connection
            connection.connect()
            connection.send_command("INFO", "server", check_health=False)
            server.check(connection.read_response())
        return self._connection
