"""Notice that a stream has grown: at once when this process wrote, within milliseconds when another did."""

import asyncio
import sqlite3
from collections.abc import Callable

from artery.errors import Unavailable
from artery.telemetry import logger

POLL_S = 0.010
_TROUBLE_S = 1.0

_log = logger("bus")


class Watch:
    """Wakes whoever waits for a stream to grow; it costs nothing while nobody does.

    SQLite changes a number (`data_version`) when another connection commits: that number is polled, and only if it
    moved are the streams that somebody waits for looked at. Those who wait do so in one event loop.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], head: Callable[[sqlite3.Connection, str], int]
    ) -> None:
        self._connect = connect
        self._head = head
        self._connection: sqlite3.Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[str, dict[asyncio.Future[bool], int]] = {}
        self._written: dict[str, int] = {}
        self._version = 0
        self._look = True
        self._closed = False

    def wrote(self, table: str, head: int) -> None:
        """This process has written up to here."""
        self._written[table] = max(head, self._written.get(table, 0))
        self._wake(table, head)

    async def beyond(self, table: str, position: int, timeout_s: float | None = None) -> bool:
        """Wait until the stream has grown beyond a position; False if it has not in time."""
        if self._closed:
            raise Unavailable("the log has been closed here: open it again")
        if self._written.get(table, 0) > position:
            return True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(timeout_s, _answer, future, False)
        self._waiting.setdefault(table, {})[future] = position
        self._look = True  # what came between the caller's last look and now must not be missed
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(POLL_S, self._poll, loop)
        try:
            return await future
        finally:
            self._forget(table, future)
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Whoever waits is told that the log is away."""
        self._closed = True
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(Unavailable("the log has been closed here: open it again"))
        if self._timer is not None:
            self._timer.cancel()
        self._drop()

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._closed or not self._waiting or loop is not self._loop:
            return
        delay_s = POLL_S
        try:
            self._check()
        except sqlite3.Error as error:
            _log.warning("watching the log failed, trying again", error=str(error))
            self._drop()
            delay_s = _TROUBLE_S
        self._timer = loop.call_later(delay_s, self._poll, loop)

    def _check(self) -> None:
        if self._connection is None:
            self._connection = self._connect()
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or self._look:
            self._version, self._look = version, False
            for table in list(self._waiting):
                self._wake(table, self._head(self._connection, table))

    def _wake(self, table: str, head: int) -> None:
        for future, position in self._waiting.get(table, {}).items():
            if head > position:
                _answer(future, True)

    def _forget(self, table: str, future: asyncio.Future[bool]) -> None:
        waiting = self._waiting[table]
        del waiting[future]
        if not waiting:
            del self._waiting[table]

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._version = 0
        if connection is not None:
            connection.close()


def _answer(future: asyncio.Future[bool], grown: bool) -> None:
    if not future.done():
        future.set_result(grown)
