"""What people's commands need of the log's tables: counts, times, fences, entries of other logs, dead letters."""

import itertools
import sqlite3
from collections.abc import Mapping, Sequence

from artery.bus import sqlite_log as log
from artery.bus.letters import again, entry_in, stream_of
from artery.bus.sqlite_schema import number_of, stream_exists
from artery.errors import BadInput

_TIME_MAX_MS = 2**53


def count_after(connection: sqlite3.Connection, table: str, number: int) -> int:
    """Entries that follow a position; positions have no holes."""
    trimmed, head = log.ends(connection, table)
    return max(0, head - max(number, trimmed))


def when(connection: sqlite3.Connection, table: str, numbers: Sequence[int]) -> list[int]:
    """When each was appended; 0 for what is not there."""
    first, size, ms = 0, 0, 0
    times = []
    with log.snapshot(connection):
        trimmed, head = log.ends(connection, table)
        for number in numbers:
            there = trimmed < number <= head
            if there and not first <= number < first + size:
                first, size, ms = log.block_at(connection, table, number)
            times.append(ms if there else 0)
    return times


def fences(connection: sqlite3.Connection, base: str) -> dict[str, int]:
    """The highest epoch of each writer."""
    return dict(connection.execute("SELECT writer, epoch FROM fences WHERE base = ?", (base,)).fetchall())


def pack_runs(entries: Sequence[tuple[int, Mapping[str, str]]]) -> list[tuple[int, list[log.Block]]]:
    """Entries as blocks, one run of blocks for each time, or `BadInput`."""
    if len(entries) > log.APPEND_MAX:
        raise BadInput(f"an append has at most {log.APPEND_MAX} entries, not {len(entries)}: split it")
    if not all(0 <= ms <= _TIME_MAX_MS for ms, _ in entries):
        raise BadInput("a time is in Unix milliseconds")
    runs = itertools.groupby(entries, key=lambda entry: entry[0])
    return [(ms, log.pack([fields for _, fields in run], 2 * log.ENTRY_MAX_BYTES)) for ms, run in runs]


def entry_at(connection: sqlite3.Connection, table: str, number: int) -> dict[str, str]:
    """The fields of one entry; none if it is not there."""
    if not stream_exists(connection, table):
        return {}
    trimmed, head = log.ends(connection, table)
    if not trimmed < number <= head:
        return {}
    return log.entries_of(log.span(connection, table, number, number))[0].fields


def take_letter(connection: sqlite3.Connection, dead: str, table: str, number: int) -> dict[str, str]:
    """The entry in a dead letter, which is marked; marks of letters that are gone go too."""
    letter = entry_at(connection, dead, number)
    stream_of(str(number), letter)
    if marked(connection, dead, [number]):
        raise again(str(number))
    try:
        original = entry_at(connection, table, number_of(letter.get("id", "")))
    except BadInput:
        original = {}  # the position is one of another log
    fields = entry_in(letter, original)
    trimmed, _ = log.ends(connection, dead)
    connection.execute("DELETE FROM requeued WHERE stream = ? AND number <= ?", (dead, trimmed))
    connection.execute("INSERT INTO requeued VALUES (?, ?)", (dead, number))
    return fields


def marked(connection: sqlite3.Connection, dead: str, numbers: Sequence[int]) -> list[int]:
    """Those of these letters that were requeued."""
    look = "SELECT 1 FROM requeued WHERE stream = ? AND number = ?"
    return [number for number in numbers if connection.execute(look, (dead, number)).fetchone()]
