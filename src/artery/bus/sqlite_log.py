"""The log itself: blocks of entries in a table for each stream.

An append is a row, whatever the number of its entries, so it costs one insert and a replay reads few rows. Positions
count entries without a hole; a position's block is the one with the greatest `first` that is not above it.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from artery.bus.base import START, Entry, StreamState
from artery.errors import BadInput, CannotStart, Fenced, PositionLost

ENTRY_MAX_BYTES = 1024 * 1024
APPEND_MAX = 100_000
APPEND_MAX_BYTES = 64 * 1024 * 1024
READ_MAX = 100_000
_BLOCK_ENTRIES = 128
_EPOCH_MAX = 2**63 - 1

_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(dict[str, str]).decode

Block = tuple[int, bytes]
"""How many entries, and their JSON, one a line."""
Line = tuple[int, bytes]
"""A position and its entry's JSON; empty if the entry has been trimmed."""


def pack(entries: Sequence[Mapping[str, str]], entry_max_bytes: int = ENTRY_MAX_BYTES) -> list[Block]:
    """Entries as blocks, or `BadInput`."""
    if len(entries) > APPEND_MAX:
        raise BadInput(f"an append has at most {APPEND_MAX} entries, not {len(entries)}: split it")
    blocks = [
        _block(entries[at : at + _BLOCK_ENTRIES], entry_max_bytes) for at in range(0, len(entries), _BLOCK_ENTRIES)
    ]
    if sum(len(body) for _, body in blocks) > APPEND_MAX_BYTES:
        raise BadInput(f"an append has at most {APPEND_MAX_BYTES} bytes: split it")
    return blocks


def _block(entries: Sequence[Mapping[str, str]], entry_max_bytes: int) -> Block:
    rows = [entry if type(entry) is dict else dict(entry) for entry in entries]
    try:
        for row in rows:
            "".join(row.values())  # the quickest way to find a value that is not a string
        body = _encoder.encode_lines(rows)[:-1]
    except (TypeError, ValueError) as error:
        raise BadInput(f"an entry maps text to text ({error})") from error
    if not all(rows):
        raise BadInput("an entry has at least one field")
    if len(body) > entry_max_bytes:
        longest = max(len(line) for line in body.split(b"\n"))
        if longest > entry_max_bytes:
            raise BadInput(f"an entry has at most {entry_max_bytes} bytes, not {longest}")
    return len(rows), body


def entries_of(lines: Sequence[Line], tries: int = 0) -> list[Entry]:
    """Lines as entries."""
    try:
        return [Entry(str(number), _decode(line) if line else {}, tries) for number, line in lines]
    except msgspec.DecodeError as error:
        raise CannotStart(f"the log is damaged ({error}): stop Artery, move its file away and start again") from error


def fence(connection: sqlite3.Connection, base: str, writer: str, epoch: int) -> None:
    """Refuse an epoch below the highest seen for this writer, and remember a higher one."""
    if not 0 <= epoch <= _EPOCH_MAX:
        raise BadInput(f"an epoch is from 0 to {_EPOCH_MAX}, not {epoch}")
    row = connection.execute("SELECT epoch FROM fences WHERE base = ? AND writer = ?", (base, writer)).fetchone()
    if row is not None and epoch < row[0]:
        raise Fenced(f"{writer} writes with epoch {row[0]} now; epoch {epoch} must stop")
    if row is None or epoch > row[0]:
        connection.execute("INSERT OR REPLACE INTO fences VALUES (?, ?, ?)", (base, writer, epoch))


def append(connection: sqlite3.Connection, table: str, blocks: Sequence[Block], now_ms: int) -> int:
    """Write the blocks; return the position before the first of them."""
    row = connection.execute(f'SELECT first + size - 1, ms FROM "{table}" ORDER BY first DESC LIMIT 1').fetchone()
    if row is None:
        row = connection.execute("SELECT trimmed, trimmed_ms FROM streams WHERE name = ?", (table,)).fetchone()
    head: int = row[0]
    ms, first = max(now_ms, row[1]), head + 1
    for size, body in blocks:
        connection.execute(f'INSERT INTO "{table}" VALUES (?, ?, ?, ?)', (first, size, ms, body))
        first += size
    return head


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read inside is of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def ends(connection: sqlite3.Connection, table: str) -> tuple[int, int]:
    """The newest position that was trimmed and the newest there is, at one moment."""
    row: tuple[int, int] = connection.execute(
        f"""SELECT trimmed, coalesce((SELECT first + size - 1 FROM "{table}" ORDER BY first DESC LIMIT 1), trimmed)
            FROM streams WHERE name = ?""",
        (table,),
    ).fetchone()
    return row


def read(connection: sqlite3.Connection, table: str, after: int, limit: int, up_to: int | None = None) -> list[Line]:
    """Lines after a position, oldest first, or `PositionLost`."""
    trimmed, head = ends(connection, table)
    if after > head:
        raise _replaced(table, after, head, trimmed)
    if after < trimmed:
        raise _lost(table, after, trimmed)
    last = min(head, head if up_to is None else up_to, after + min(limit, READ_MAX))
    if last <= after:
        return []
    lines = span(connection, table, after + 1, last)
    if not lines[0][1]:  # trimmed since
        raise _lost(table, after, ends(connection, table)[0])
    return lines


def nothing(table: str, after: int) -> list[Any]:
    """What a stream that does not exist holds after a position."""
    if after:
        raise _replaced(table, after, 0, 0)
    return []


def _replaced(table: str, after: int, head: int, trimmed: int) -> PositionLost:
    return PositionLost(
        f"{table} ends at {head}, before {after}: it is not the log it was, read it anew", first=str(trimmed)
    )


def _lost(table: str, after: int, trimmed: int) -> PositionLost:
    return PositionLost(f"{table} was trimmed up to {trimmed}, past {after}: go on from there", first=str(trimmed))


def span(connection: sqlite3.Connection, table: str, low: int, high: int) -> list[Line]:
    """Every line from `low` to `high`; those that were trimmed are empty."""
    first, body, trimmed = connection.execute(
        f"""SELECT min(first), CAST(group_concat(body, char(10)) AS BLOB), (SELECT trimmed FROM streams WHERE name = ?3)
            FROM (SELECT first, body FROM "{table}" WHERE first <= ?2
                  AND first >= coalesce((SELECT max(first) FROM "{table}" WHERE first <= ?1), ?1) ORDER BY first)""",
        (low, high, table),
    ).fetchone()  # one row, because a row fetched is a turn of the interpreter's lock that a busy loop makes long
    begin = high + 1 if first is None else min(high + 1, max(low, first, trimmed + 1))
    gone = [(number, b"") for number in range(low, begin)]
    if begin > high:
        return gone
    lines = body.split(b"\n")[begin - first : high - first + 1]
    return gone + list(zip(range(begin, high + 1), lines, strict=True))


def read_back(connection: sqlite3.Connection, table: str, limit: int, before: int | None) -> list[Line]:
    """The newest lines (before a position, if given), newest first."""
    trimmed, head = ends(connection, table)
    high = head if before is None else min(head, before - 1)
    low = max(trimmed + 1, high - min(limit, READ_MAX) + 1)
    return [line for line in reversed(span(connection, table, low, high)) if line[1]] if low <= high else []


def find(connection: sqlite3.Connection, table: str, ms: int) -> int:
    """The newest position that was appended before `ms`, by halving; 0 if none or unknown. Needs a `snapshot`."""
    trimmed, trimmed_ms = connection.execute(
        "SELECT trimmed, trimmed_ms FROM streams WHERE name = ?", (table,)
    ).fetchone()
    found = trimmed if trimmed_ms < ms else 0
    low, high = trimmed + 1, ends(connection, table)[1]
    while low <= high:
        first, size, at = block_at(connection, table, (low + high) // 2)
        if at < ms:
            found, low = first + size - 1, first + size
        else:
            high = first - 1
    return found


def block_at(connection: sqlite3.Connection, table: str, number: int) -> tuple[int, int, int]:
    row: tuple[int, int, int] = connection.execute(
        f'SELECT first, size, ms FROM "{table}" WHERE first <= ? ORDER BY first DESC LIMIT 1', (number,)
    ).fetchone()
    return row


def states(connection: sqlite3.Connection, base: str) -> list[StreamState]:
    """Size and ends of every stream of this base."""
    with snapshot(connection):
        names = connection.execute(
            "SELECT name, lost FROM streams WHERE name > ? AND name < ? ORDER BY name", (f"{base}:", f"{base};")
        ).fetchall()  # `;` follows `:`
        return [_state(base, table, lost, *ends(connection, table)) for table, lost in names]


def _state(base: str, table: str, lost: int, trimmed: int, head: int) -> StreamState:
    first = str(trimmed + 1) if head > trimmed else START
    return StreamState(table.removeprefix(f"{base}:"), head - trimmed, first, str(head), lost)


def cut(connection: sqlite3.Connection, table: str, trimmed: int, lost: int) -> None:
    """Say that everything up to `trimmed` is gone; `sweep` then frees the space."""
    ms = block_at(connection, table, trimmed)[2]
    connection.execute(
        "UPDATE streams SET trimmed = ?, trimmed_ms = ?, lost = lost + ? WHERE name = ?", (trimmed, ms, lost, table)
    )


def sweep(connection: sqlite3.Connection, table: str, rows_max: int) -> bool:
    """Remove some blocks that are trimmed as a whole; whether there may be more."""
    trimmed, head = ends(connection, table)
    row = connection.execute(f'SELECT max(first) FROM "{table}" WHERE first <= ?', (trimmed + 1,)).fetchone()
    end = head + 1 if trimmed == head else (row[0] or 0)
    row = connection.execute(
        f'SELECT first FROM "{table}" WHERE first < ? ORDER BY first LIMIT 1 OFFSET ?', (end, rows_max)
    ).fetchone()
    connection.execute(f'DELETE FROM "{table}" WHERE first < ?', (end if row is None else row[0],))
    return row is not None
