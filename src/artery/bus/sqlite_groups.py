"""Groups of readers in the log's tables: what each was given, and what of it is not acked."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NoReturn

from artery.bus import sqlite_log as log
from artery.bus.base import Entry, GroupState
from artery.bus.runs import Run, covered, ranges
from artery.errors import BadInput, PositionLost


def make(connection: sqlite3.Connection, table: str, group: str, start: int) -> None:
    """Make the group if it does not exist."""
    connection.execute("INSERT OR IGNORE INTO groups (stream, name, last) VALUES (?, ?, ?)", (table, group, start))


def _row(connection: sqlite3.Connection, table: str, group: str) -> tuple[int, int]:
    """The group's id and the newest position that it was given."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT id, last FROM groups WHERE stream = ? AND name = ?", (table, group)
    ).fetchone()
    return row or _missing(table, group)


def _stand(connection: sqlite3.Connection, table: str, group: str) -> tuple[int, int, int, int]:
    """The same, and the ends of the stream, in one statement."""
    row: tuple[int, int, int, int] | None = connection.execute(
        f"""SELECT id, last, trimmed,
                   coalesce((SELECT first + size - 1 FROM "{table}" ORDER BY first DESC LIMIT 1), trimmed)
            FROM groups JOIN streams ON streams.name = stream WHERE stream = ? AND groups.name = ?""",
        (table, group),
    ).fetchone()
    return row or _missing(table, group)


def _missing(table: str, group: str) -> NoReturn:
    raise BadInput(f"{table} has no group {group!r:.60}: call ensure_group first")


def read_new(
    connection: sqlite3.Connection,
    table: str,
    group: str,
    consumer: str,
    limit: int,
    now_ms: int,
    ahead: list[Entry],
) -> tuple[list[Entry], int, PositionLost | None]:
    """What the group was never given, the newest position it has been given now, and what it can never be given.

    A loss is said once: the group goes on behind it. `ahead` may be just these entries, read before.
    """
    group_id, last, trimmed, head = _stand(connection, table, group)
    if last < trimmed:
        _advance(connection, group_id, trimmed)
        message = f"{table} was trimmed up to {trimmed} before {group} had read past {last}"
        return [], trimmed, PositionLost(message, first=str(trimmed))
    end = min(head, last + min(limit, log.READ_MAX))
    if end <= last:
        return [], last, None
    _insert(connection, group_id, [Run(last + 1, end, consumer, 1, now_ms)])
    _advance(connection, group_id, end)
    if len(ahead) == end - last and ahead[0].id == str(last + 1):
        return ahead, end, None
    return log.entries_of(log.span(connection, table, last + 1, end), tries=1), end, None


def look_ahead(connection: sqlite3.Connection, table: str, after: int, limit: int) -> list[Entry]:
    """What a group that stands there will be given next, if there is so much of it."""
    if log.ends(connection, table)[1] < after + limit:
        return []
    lines = log.span(connection, table, after + 1, after + limit)
    return log.entries_of(lines, tries=1) if lines[0][1] else []


def read_pending(
    connection: sqlite3.Connection, table: str, group: str, consumer: str, after: int, limit: int, now_ms: int
) -> list[Entry]:
    """What this consumer holds after a position, given once more."""
    group_id, _ = _row(connection, table, group)
    held = _select(connection, "group_id = ? AND last > ? AND consumer = ?", (group_id, after, consumer))
    return _give(connection, table, group_id, held, consumer, after + 1, limit, now_ms)


def claim(
    connection: sqlite3.Connection, table: str, group: str, consumer: str, idle_ms: int, limit: int, now_ms: int
) -> list[Entry]:
    """What others have held for longer than `idle_ms`, now in this consumer's hands."""
    group_id, _ = _row(connection, table, group)
    # A time that has not come yet is from before the machine started anew: its holder is gone.
    idle = "group_id = ? AND consumer <> ? AND (given_ms <= ? OR given_ms > ?)"
    left = _select(connection, idle, (group_id, consumer, now_ms - idle_ms, now_ms))
    return _give(connection, table, group_id, left, consumer, 0, limit, now_ms)


def _give(
    connection: sqlite3.Connection,
    table: str,
    group_id: int,
    held: Iterable[Run],
    consumer: str,
    low: int,
    limit: int,
    now_ms: int,
) -> list[Entry]:
    entries: list[Entry] = []
    for run in held:
        room = min(limit, log.READ_MAX) - len(entries)
        if room <= 0:
            break
        start = max(low, run.first)
        part = run.part(start, start + room - 1)
        if part is not None:
            given = part.given(consumer, now_ms)
            _replace(connection, group_id, run, [*run.without(part.first, part.last), given])
            entries += log.entries_of(log.span(connection, table, part.first, part.last), tries=given.tries)
    return entries


def ack(connection: sqlite3.Connection, table: str, group: str, numbers: Iterable[int]) -> int:
    """Take these out of the pending; return how many were."""
    group_id, _ = _row(connection, table, group)
    return sum(_remove(connection, group_id, low, high) for low, high in ranges(numbers))


def ack_up_to(connection: sqlite3.Connection, table: str, group: str, number: int) -> None:
    """Take everything up to here for given and done."""
    group_id, last = _row(connection, table, group)
    head = log.ends(connection, table)[1]
    if number > head:
        raise BadInput(f"{table} ends at {head}: {group} cannot be done with {number}")
    _remove(connection, group_id, 0, number)
    if number > last:
        _advance(connection, group_id, number)


def states(connection: sqlite3.Connection, table: str, group: str | None = None) -> list[GroupState]:
    """How far the groups of a stream (or just this one) have come."""
    trimmed, head = log.ends(connection, table)
    rows = connection.execute(
        """SELECT name, groups.last, total(pending.last - pending.first + 1), min(pending.first)
           FROM groups LEFT JOIN pending ON group_id = id WHERE stream = ?1 AND name = coalesce(?2, name)
           GROUP BY id ORDER BY name""",
        (table, group),
    ).fetchall()
    return [
        GroupState(name, head - max(last, trimmed), int(pending), str(last), "" if oldest is None else str(oldest))
        for name, last, pending, oldest in rows
    ]


def trim(
    connection: sqlite3.Connection, table: str, keep: int, required: Sequence[str], keep_at_most: int
) -> tuple[int, int]:
    """Move the stream's beginning forward; return how many entries went, and how many of them were still needed."""
    trimmed, head = log.ends(connection, table)
    needing = [_needed(connection, table, name) for name in required if _exists(connection, table, name)]
    floors = [min((low for low, _ in parts), default=head + 1) - 1 for parts in needing]
    end = min([head - keep, *floors])
    if keep_at_most:
        end = max(end, head - keep_at_most)
    if end <= trimmed:
        return 0, 0
    lost = covered((max(low, trimmed + 1), min(high, end)) for parts in needing for low, high in parts)
    log.cut(connection, table, end, lost)
    return end - trimmed, lost


def _exists(connection: sqlite3.Connection, table: str, group: str) -> bool:
    found = connection.execute("SELECT 1 FROM groups WHERE stream = ? AND name = ?", (table, group))
    return found.fetchone() is not None


def _needed(connection: sqlite3.Connection, table: str, group: str) -> list[tuple[int, int]]:
    """What the group has not acked, given or not, as ranges."""
    group_id, last = _row(connection, table, group)
    head = log.ends(connection, table)[1]
    pending = [(run.first, run.last) for run in _select(connection, "group_id = ?", (group_id,))]
    return pending + ([(last + 1, head)] if last < head else [])


def _advance(connection: sqlite3.Connection, group_id: int, last: int) -> None:
    connection.execute("UPDATE groups SET last = ? WHERE id = ?", (last, group_id))


def _select(connection: sqlite3.Connection, where: str, values: tuple[int | str, ...]) -> list[Run]:
    rows = connection.execute(
        f"SELECT first, last, consumer, tries, given_ms FROM pending WHERE {where} ORDER BY first", values
    )
    return [Run(*row) for row in rows.fetchall()]


def _insert(connection: sqlite3.Connection, group_id: int, runs: Sequence[Run]) -> None:
    for run in runs:
        connection.execute(
            "INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?)",
            (group_id, run.first, run.last, run.consumer, run.tries, run.given_ms),
        )


def _replace(connection: sqlite3.Connection, group_id: int, run: Run, rests: Sequence[Run]) -> None:
    connection.execute("DELETE FROM pending WHERE group_id = ? AND first = ?", (group_id, run.first))
    _insert(connection, group_id, rests)


def _remove(connection: sqlite3.Connection, group_id: int, low: int, high: int) -> int:
    """Take a range out of the runs that touch it; return how many entries that were."""
    whole = "DELETE FROM pending WHERE group_id = ? AND first = ? AND last = ?"
    if connection.execute(whole, (group_id, low, high)).rowcount:  # what was given in one go, as nearly always
        return high - low + 1
    touching = _select(
        connection,
        """group_id = ?1 AND first <= ?3 AND last >= ?2 AND first >=
           coalesce((SELECT max(first) FROM pending WHERE group_id = ?1 AND first <= ?2), ?2)""",
        (group_id, low, high),
    )
    for run in touching:
        _replace(connection, group_id, run, run.without(low, high))
    return sum(min(run.last, high) - max(run.first, low) + 1 for run in touching)
