"""Which files of a table are worth joining, and which of its snapshots can go. Pure."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from artery.lake.state import DAY_MS, HOUR_MS, SMALL_BYTES, File, Snap, month_of, partition_of
from artery.lake.tables import Table

SETTLED_MS = 120_000
"""An hour or a day is closed once so much time has passed: what is still on its way is stored by then."""
JOIN_MIN = 2
JOIN_OPEN_MIN = 8
"""How many small files are joined at least: in a partition that is over, and in one that still grows."""
JOB_BYTES = 512 * 1024 * 1024
"""A job of more than this would hold up the batches for too long: it is done an hour at a time."""
KEEP_SNAPSHOTS = 20
ANNOUNCED_MAX = 200
"""So many snapshots are kept for notifications at most, the newest of them: each takes room in what every commit
writes. What a reader or a person has pinned always stays."""


class Job(msgspec.Struct, frozen=True):
    """Join the small files of one partition whose rows lie in [low_ms, high_ms)."""

    table: str
    low_ms: int
    high_ms: int
    period_s: int
    files: int
    bytes: int


def jobs(table: Table, files: Iterable[File], now_ms: int, *, join_open: int = JOIN_OPEN_MIN) -> list[Job]:
    """What is worth joining now, the oldest first; files of what is not over yet are left alone, as they change."""
    small: dict[tuple[int, ...], list[File]] = {}
    for file in files:
        if file.bytes < SMALL_BYTES:
            small.setdefault(partition_of(table, file), []).append(file)
    kinds = dict(table.partition).values()
    found: list[Job] = []
    for held in small.values():
        if "day" in kinds:
            found += _of_a_day(table, held, now_ms)
        elif "month" in kinds:
            found += _of_a_month(table, held, now_ms, join_open)
        elif len(held) >= join_open:
            found.append(_job(table, held, min(file.low_ms for file in held), now_ms + DAY_MS))
    return sorted(found, key=lambda job: (job.low_ms, job.period_s))


def _of_a_day(table: Table, held: Sequence[File], now_ms: int) -> list[Job]:
    """A day that is over becomes one file; before that, each hour that is over does."""
    day = held[0].low_ms // DAY_MS * DAY_MS
    whole = [_job(table, held, day, day + DAY_MS)] if len(held) >= JOIN_MIN else []
    if day + DAY_MS + SETTLED_MS <= now_ms and (not whole or whole[0].bytes <= JOB_BYTES):
        return whole
    hours: dict[int, list[File]] = {}
    for file in held:
        hours.setdefault(file.low_ms // HOUR_MS * HOUR_MS, []).append(file)
    return [
        _job(table, some, hour, hour + HOUR_MS)
        for hour, some in hours.items()
        if len(some) >= JOIN_MIN and hour + HOUR_MS + SETTLED_MS <= now_ms
    ]


def _of_a_month(table: Table, held: Sequence[File], now_ms: int, join_open: int) -> list[Job]:
    """Days that are over, all at once when the month is over, before that when there are many of them."""
    today = (now_ms - SETTLED_MS) // DAY_MS * DAY_MS
    closed = [file for file in held if file.high_ms < today]
    is_over = month_of(held[0].low_ms) < month_of(today)
    if len(closed) < (JOIN_MIN if is_over else join_open):
        return []
    return [_job(table, closed, min(file.low_ms for file in closed), max(file.high_ms for file in closed) + 1)]


def _job(table: Table, files: Sequence[File], low_ms: int, high_ms: int) -> Job:
    size = sum(file.bytes for file in files)
    return Job(table.name, low_ms, high_ms, files[0].period_s, len(files), size)


class Keep(msgspec.Struct, frozen=True):
    """What stays of a table's past: what someone has pinned, what notifications have named, what was the newest less
    than `ms` ago, the newest few."""

    pinned: Collection[int] = ()
    ms: int = 600_000
    newest: int = KEEP_SNAPSHOTS
    announced: Collection[int] = ()


def expired(snapshots: Collection[Snap], current: int, keep: Keep, now_ms: int) -> list[int]:
    """The snapshots that nobody needs any more.

    The newest of each query stays too, because it says how far that query has come; of very many that
    notifications have named, the newest `ANNOUNCED_MAX`.
    """
    order = sorted(snapshots, key=lambda one: one.number, reverse=True)
    kept = {current, *(one.id for one in order[: keep.newest])}
    kept |= {*keep.pinned, *[one.id for one in order if one.id in keep.announced][:ANNOUNCED_MAX]}
    seen: set[str] = set()
    replaced_ms = now_ms
    for one in order:
        if replaced_ms > now_ms - keep.ms:  # a reader that began before it was replaced may still be at it
            kept.add(one.id)
        replaced_ms = one.at_ms
        if one.query and one.query not in seen:
            seen.add(one.query)
            kept.add(one.id)
    return [one.id for one in reversed(order) if one.id not in kept]
