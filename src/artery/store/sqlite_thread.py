"""Threads that own a SQLite connection each: one commits in groups, one reads."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from artery import crash
from artery.errors import TooMuch, Unavailable
from artery.store.sqlite_file import primary, translate

JOBS_MAX = 10_000
"""Jobs that may wait for one thread."""
GROUP_MAX = 1_000
"""Jobs in one transaction."""

T = TypeVar("T")


class _Job(NamedTuple):
    run: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any] | None
    durable: bool


class _Outcome(NamedTuple):
    future: asyncio.Future[Any] | None
    result: Any
    error: Exception | None


class Reader:
    """Runs jobs one after the other on a connection of its own; a broken connection is opened again for the next.

    A caller that is cancelled while it waits leaves its job to finish unheard.
    """

    def __init__(self, path: str, connect: Callable[[], sqlite3.Connection], name: str) -> None:
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._ended: list[asyncio.Future[None]] = []
        self._alive = True
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> asyncio.Future[T]:
        """The job's result, in the running loop. `durable` asks for a synced commit, if this thread writes."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._path} has been closed here: open it again")
            if self._jobs.qsize() >= JOBS_MAX:
                raise TooMuch(f"{JOBS_MAX} calls wait for {self._path} already: send fewer at once")
            self._jobs.put(_Job(run, future, durable))
        return future

    def run_soon(self, run: Callable[[sqlite3.Connection], None]) -> None:
        """Do this if there is time for it; from any thread, unheard."""
        with self._lock:
            if not self._closed and self._jobs.qsize() < JOBS_MAX:
                self._jobs.put(_Job(run, None, durable=False))

    async def close(self) -> None:
        """Finish what was submitted, then end the thread; safe to call again."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if not self._alive:
                return
            self._ended.append(ended)
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        await ended

    def _work(self) -> None:
        ending = False
        while not ending:
            jobs, ending = self._take()
            if jobs:
                _settle(self._run(jobs))
        self._drop()
        with self._lock:
            self._alive = False
            _settle([_Outcome(future, None, None) for future in self._ended])

    def _take(self) -> tuple[list[_Job], bool]:
        """Everything that waits, up to a group, and whether it was the last."""
        jobs = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= GROUP_MAX or self._jobs.empty():
                return jobs, False
            job = self._jobs.get()
        return jobs, True

    def _run(self, jobs: list[_Job]) -> list[_Outcome]:
        return [self._read(job) for job in jobs]

    def _read(self, job: _Job) -> _Outcome:
        try:
            return _Outcome(job.future, job.run(self._open()), None)
        except sqlite3.Error as error:
            self._recover(error)
            return _Outcome(job.future, None, translate(error, self._path))
        except Exception as error:
            return _Outcome(job.future, None, error)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _recover(self, error: sqlite3.Error) -> None:
        """Go on after a lock; after anything else the connection is in doubt, and the next job gets a new one."""
        locked = primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if not locked or (self._connection is not None and self._connection.in_transaction):
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


class Writer(Reader):
    """Runs all jobs that wait in one transaction; each is all or nothing on its own, and heard of after the commit.

    A failing job undoes its own part; a failing disk fails the whole group. A group without a durable job is
    committed without a sync: it survives the death of every process, but not of the machine.
    """

    _synced = True

    def _run(self, jobs: list[_Job]) -> list[_Outcome]:
        try:
            connection = self._open()
            self._sync(connection, any(job.durable for job in jobs))
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_write(connection, job) for job in jobs] if len(jobs) > 1 else [_write_alone(connection, *jobs)]
            if connection.in_transaction:
                crash.point("sqlite.commit")
                connection.execute("COMMIT")
            return outcomes
        except sqlite3.Error as error:
            self._recover(error)
            return [_Outcome(job.future, None, translate(error, self._path)) for job in jobs]

    def _sync(self, connection: sqlite3.Connection, durable: bool) -> None:
        if durable != self._synced:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable

    def _drop(self) -> None:
        super()._drop()
        self._synced = True  # what a new connection begins with


def _write(connection: sqlite3.Connection, job: _Job) -> _Outcome:
    connection.execute("SAVEPOINT job")
    try:
        result = job.run(connection)
    except sqlite3.Error:
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return _Outcome(job.future, None, error)
    connection.execute("RELEASE job")
    return _Outcome(job.future, result, None)


def _write_alone(connection: sqlite3.Connection, job: _Job) -> _Outcome:
    """The transaction is the job's own, so it needs no savepoint to be undone."""
    try:
        return _Outcome(job.future, job.run(connection), None)
    except sqlite3.Error:
        raise
    except Exception as error:
        connection.execute("ROLLBACK")
        return _Outcome(job.future, None, error)


def _settle(outcomes: list[_Outcome]) -> None:
    """Hand results to the loops that wait for them: one wake-up a loop, not one a caller."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        if outcome.future is not None:
            by_loop.setdefault(outcome.future.get_loop(), []).append(outcome)
    for loop, own in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell, own)
        except RuntimeError:  # that loop has ended, and its callers with it
            continue


def _tell(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future is None or future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
