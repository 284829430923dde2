"""The bus in a SQLite file that several processes may share."""

import asyncio
import functools
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from artery.bus import sqlite_groups as groups
from artery.bus import sqlite_log as log
from artery.bus import sqlite_upkeep as upkeep
from artery.bus.base import DEAD, START, Entry, GroupState, StreamState, Trimmed
from artery.bus.letters import about, stream_of
from artery.bus.sqlite_schema import (
    check_base,
    check_name,
    make_stream,
    number_of,
    numbers_of,
    prepare,
    stream_exists,
    table_of,
)
from artery.bus.sqlite_torn import count_torn
from artery.bus.sqlite_watch import Watch
from artery.errors import ArteryError, BadInput, PositionLost
from artery.store.sqlite_file import connect, open_file
from artery.store.sqlite_thread import Reader, Writer

SWEEP_ROWS = 500
AHEAD_MAX = 1_000
"""Entries in a page of a group, of which the next one is read ahead."""

T = TypeVar("T")


class SqliteBus:
    """Streams as tables of one file. Positions are row numbers: decimal, without a hole, never used again.

    One thread writes: all appends and acks that wait share a transaction, which is synced before any of them returns
    (what is only given out is not synced: after a power cut it is given again). Another thread reads. A writer's fence
    holds for all streams of the base. Calls that wait (`follow`, `read_new` with `wait_ms`) belong to one event loop.
    """

    def __init__(
        self,
        path: str,
        base: str = "md_stream",
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = check_base(base)
        self._clock = clock
        self._monotonic = monotonic  # the machine's, so it means the same to every process that shares the file
        self._there: set[str] = set()
        self._behind: dict[tuple[str, str], tuple[int, int]] = {}
        self._ahead: dict[tuple[str, str], list[Entry]] = {}
        self._first: sqlite3.Connection | None = open_file(path)
        prepare(self._first, path)
        count_torn(self._first, path)
        self._path = path
        self._writer = Writer(path, self._connect, "artery-bus-write")
        self._reader = Reader(path, self._connect_to_read, "artery-bus-read")
        self._watch = Watch(functools.partial(connect, path, read_only=True, busy_s=0.0), self._number_of_head)

    def _connect(self) -> sqlite3.Connection:
        first, self._first = self._first, None
        return first or connect(self._path)

    def _connect_to_read(self) -> sqlite3.Connection:
        return connect(self._path, read_only=True)

    async def append(
        self, stream: str, entries: Sequence[Mapping[str, str]], *, writer: str = "", epoch: int = 0
    ) -> list[str]:
        table = table_of(self._base, stream)
        if epoch and not writer:
            raise BadInput("an epoch belongs to a writer: name it")
        blocks = log.pack(entries)
        now_ms = int(self._clock() * 1_000)

        def work(connection: sqlite3.Connection) -> int:
            if writer:
                log.fence(connection, self._base, writer, epoch)
            return self._append(connection, table, blocks, now_ms) if blocks else 0

        head = await self._writer.submit(work)
        if not blocks:
            return []
        self._wrote(table, head + len(entries))
        return [str(number) for number in range(head + 1, head + 1 + len(entries))]

    def _append(self, connection: sqlite3.Connection, table: str, blocks: Sequence[log.Block], now_ms: int) -> int:
        if table not in self._there:
            make_stream(connection, table)
        return log.append(connection, table, blocks, now_ms)

    def _wrote(self, table: str, head: int) -> None:
        self._there.add(table)  # only now, because a failed commit undoes the table too
        self._watch.wrote(table, head)

    async def head(self, stream: str) -> str:
        table = table_of(self._base, stream)
        return str(await self._reader.submit(lambda connection: self._number_of_head(connection, table)))

    def _number_of_head(self, connection: sqlite3.Connection, table: str) -> int:
        return log.ends(connection, table)[1] if self._exists(connection, table) else 0

    def _exists(self, connection: sqlite3.Connection, table: str) -> bool:
        if table not in self._there and stream_exists(connection, table):
            self._there.add(table)
        return table in self._there

    async def read(self, stream: str, after: str = START, limit: int = 1_000) -> list[Entry]:
        table, number = table_of(self._base, stream), number_of(after)

        def work(connection: sqlite3.Connection) -> list[Entry]:
            if not self._exists(connection, table):
                return log.nothing(table, number)
            return log.entries_of(log.read(connection, table, number, limit))

        return await self._reader.submit(work)

    async def read_back(self, stream: str, limit: int, before: str = "") -> list[Entry]:
        table = table_of(self._base, stream)
        number = number_of(before) if before else None
        return await self._look(
            table, [], lambda connection: log.entries_of(log.read_back(connection, table, limit, number))
        )

    async def follow(self, stream: str, after: str = START, limit: int = 1_000) -> AsyncIterator[list[Entry]]:
        table = table_of(self._base, stream)
        while True:
            entries = await self.read(stream, after, limit)
            if entries:
                yield entries
                after = entries[-1].id
            else:
                await self._watch.beyond(table, number_of(after))

    async def find(self, stream: str, ms: int) -> str:
        table = table_of(self._base, stream)

        def work(connection: sqlite3.Connection) -> int:
            with log.snapshot(connection):
                return log.find(connection, table, ms)

        return str(await self._look(table, 0, work))

    async def ensure_group(self, stream: str, group: str, start: str = START) -> None:
        table, number = table_of(self._base, stream), number_of(start)
        check_name(group, "group")

        def work(connection: sqlite3.Connection) -> None:
            if table not in self._there:
                make_stream(connection, table)
            groups.make(connection, table, group, number)

        await self._writer.submit(work)
        self._there.add(table)

    async def read_pending(
        self, stream: str, group: str, consumer: str, after: str = START, limit: int = 100
    ) -> list[Entry]:
        table, number = table_of(self._base, stream), number_of(after)
        now_ms = self._now_ms()
        return await self._writer.submit(
            lambda connection: groups.read_pending(connection, table, group, consumer, number, limit, now_ms),
            durable=False,
        )

    async def read_new(
        self, stream: str, group: str, consumer: str, limit: int = 100, wait_ms: int = 0, done: Sequence[str] = ()
    ) -> list[Entry]:
        table = table_of(self._base, stream)
        check_name(consumer, "consumer")
        acked = numbers_of(done)
        deadline = self._monotonic() + wait_ms / 1_000

        def work(connection: sqlite3.Connection) -> tuple[list[Entry], int, PositionLost | None]:
            if acked:
                groups.ack(connection, table, group, acked)
            ahead, now_ms = self._ahead.pop((table, group), []), self._now_ms()
            given = groups.read_new(connection, table, group, consumer, limit, now_ms, ahead)
            if len(given[0]) == limit <= AHEAD_MAX:
                self._behind[table, group] = given[1], limit
                if acked:
                    self._look_ahead(table, group)
            return given

        while True:
            entries, last, lost = await self._writer.submit(work, durable=bool(acked))
            acked = []
            if lost is not None:
                raise lost
            left_s = deadline - self._monotonic()
            if entries or limit <= 0 or left_s <= 0 or not await self._watch.beyond(table, last, left_s):
                return entries

    def _look_ahead(self, table: str, group: str) -> None:
        """Have the next page of a group that is behind decoded while the disk keeps an ack, not before: what decodes
        has the interpreter's lock, and would hold up what the disk waits for."""
        if (behind := self._behind.pop((table, group), None)) is None:
            return
        last, limit = behind

        def work(connection: sqlite3.Connection) -> None:
            with suppress(sqlite3.Error, ArteryError):  # then it is read when it is asked for, and the error said
                self._ahead[table, group] = groups.look_ahead(connection, table, last, limit)

        self._reader.run_soon(work)

    async def ack(self, stream: str, group: str, ids: Sequence[str]) -> int:
        table, numbers = table_of(self._base, stream), numbers_of(ids)

        def work(connection: sqlite3.Connection) -> int:
            done = groups.ack(connection, table, group, numbers)
            self._look_ahead(table, group)
            return done

        return await self._writer.submit(work)

    async def ack_up_to(self, stream: str, group: str, position: str) -> None:
        table, number = table_of(self._base, stream), number_of(position)
        await self._writer.submit(lambda connection: groups.ack_up_to(connection, table, group, number))

    async def claim(self, stream: str, group: str, consumer: str, idle_ms: int, limit: int = 100) -> list[Entry]:
        table, now_ms = table_of(self._base, stream), self._now_ms()
        check_name(consumer, "consumer")
        return await self._writer.submit(
            lambda connection: groups.claim(connection, table, group, consumer, idle_ms, limit, now_ms), durable=False
        )

    async def dead_letter(self, stream: str, group: str, entry: Entry, error: str) -> None:
        table, dead = table_of(self._base, stream), table_of(self._base, DEAD)
        number, now_ms = number_of(entry.id), int(self._clock() * 1_000)
        letter = entry.fields | about(stream, group, entry, error)
        blocks = log.pack([letter], entry_max_bytes=2 * log.ENTRY_MAX_BYTES)

        def work(connection: sqlite3.Connection) -> int | None:
            if not groups.ack(connection, table, group, [number]):
                return None  # another consumer has dealt with it
            return self._append(connection, dead, blocks, now_ms)

        head = await self._writer.submit(work)
        if head is not None:
            self._wrote(dead, head + 1)

    async def group(self, stream: str, group: str) -> GroupState:
        table = table_of(self._base, stream)
        empty: list[GroupState] = []
        found = await self._look(table, empty, lambda connection: groups.states(connection, table, group))
        if not found:
            raise BadInput(f"{table} has no group {group!r:.60}: call ensure_group first")
        return found[0]

    async def groups(self, stream: str) -> list[GroupState]:
        table = table_of(self._base, stream)
        return await self._look(table, [], lambda connection: groups.states(connection, table))

    async def streams(self) -> list[StreamState]:
        return await self._reader.submit(lambda connection: log.states(connection, self._base))

    async def trim(self, stream: str, *, keep: int, required: Sequence[str] = (), keep_at_most: int = 0) -> Trimmed:
        if keep < 0 or keep_at_most < 0:
            raise BadInput("a trim keeps 0 entries or more")
        table = table_of(self._base, stream)
        if not await self._look(table, False, lambda _: True):
            return Trimmed(0, 0)
        removed, lost = await self._writer.submit(
            lambda connection: groups.trim(connection, table, keep, required, keep_at_most)
        )
        more = removed > 0
        while more:  # a little at a time, so that appends are never held up for long
            more = await self._writer.submit(lambda connection: log.sweep(connection, table, SWEEP_ROWS), durable=False)
        return Trimmed(removed, lost)

    async def count_after(self, stream: str, position: str) -> int:
        table, number = table_of(self._base, stream), number_of(position)
        return await self._look(table, 0, lambda connection: upkeep.count_after(connection, table, number))

    async def is_full(self) -> bool:
        """As in the base; a full disk is not helped by a trim."""
        return False

    async def give_up(
        self, stream: str, up_to: str, marks: Sequence[Mapping[str, str]], required: Sequence[str] = ()
    ) -> Trimmed:
        """As in the base; as it is never full, nothing goes."""
        return Trimmed(0, 0)

    async def when(self, stream: str, ids: Sequence[str]) -> list[int]:
        table, numbers = table_of(self._base, stream), numbers_of(ids)
        return await self._look(table, [0] * len(ids), lambda connection: upkeep.when(connection, table, numbers))

    async def fences(self) -> dict[str, int]:
        return await self._reader.submit(lambda connection: upkeep.fences(connection, self._base))

    async def restore(self, stream: str, entries: Sequence[tuple[int, Mapping[str, str]]]) -> list[str]:
        table, runs = table_of(self._base, stream), upkeep.pack_runs(entries)
        if not runs:
            return []

        def work(connection: sqlite3.Connection) -> int:
            heads = [self._append(connection, table, blocks, ms) for ms, blocks in runs]
            return min(heads)

        head = await self._writer.submit(work)
        self._wrote(table, head + len(entries))
        return [str(number) for number in range(head + 1, head + 1 + len(entries))]

    async def requeue(self, dead_id: str) -> str:
        dead, number = table_of(self._base, DEAD), number_of(dead_id)
        letter = await self._look(dead, None, lambda connection: upkeep.entry_at(connection, dead, number))
        table = table_of(self._base, stream_of(dead_id, letter))
        now_ms = int(self._clock() * 1_000)

        def work(connection: sqlite3.Connection) -> int:
            fields = upkeep.take_letter(connection, dead, table, number)
            return self._append(connection, table, log.pack([fields]), now_ms) + 1

        position = await self._writer.submit(work)
        self._wrote(table, position)
        return str(position)

    async def requeued(self, dead_ids: Sequence[str]) -> set[str]:
        dead, numbers = table_of(self._base, DEAD), numbers_of(dead_ids)
        return set(map(str, await self._reader.submit(lambda connection: upkeep.marked(connection, dead, numbers))))

    async def close(self) -> None:
        self._watch.close()
        await self._writer.close()
        await self._reader.close()

    def _now_ms(self) -> int:
        return int(self._monotonic() * 1_000)

    def _look(self, table: str, empty: T, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """What `work` reads, or `empty` while the stream does not exist."""
        return self._reader.submit(lambda connection: work(connection) if self._exists(connection, table) else empty)
