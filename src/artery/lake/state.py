"""What a table consists of, and how well it is kept. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from artery.lake.tables import Table

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SMALL_BYTES = 8 * 1024 * 1024
"""A file below this size that has neighbours in its partition is small: it costs readers more than it holds."""
SMALL_MAX = 1_000
"""More small files than this in a table mean that upkeep does not come along: commits make about 360 an hour."""
SNAPSHOTS_MAX = 500
STALE_MS = 900_000
"""Trades come all the time: a lake that has stored none for so long, or at which nobody has looked, is not fresh."""


class File(msgspec.Struct, frozen=True):
    """A data file: where it is, what it holds, and which times lie in it."""

    path: str
    rows: int
    bytes: int
    low_ms: int = 0
    high_ms: int = 0
    period_s: int = 0


class Snap(msgspec.Struct, frozen=True):
    """A snapshot: when it was committed, by whom, and what came before it."""

    id: int
    parent: int
    at_ms: int
    number: int
    operation: str = ""
    query: str = ""
    summary: Mapping[str, str] = {}


class Look(msgspec.Struct, frozen=True):
    """A table as it was when it was looked at."""

    table: str
    files: Sequence[File]
    snapshots: Sequence[Snap]
    current: int = 0


class Health(msgspec.Struct, frozen=True):
    """The same in numbers and in words."""

    table: str
    rows: int
    files: int
    bytes: int
    small: int
    small_share: float
    snapshots: int
    committed_ms: int
    newest_ms: int
    ok: bool
    words: str


def partition_of(table: Table, file: File) -> tuple[int, ...]:
    """Which files could be one: those of the same partition, as far as it is known from what they hold."""
    kinds = dict(table.partition)
    period = (file.period_s,) if "period_s" in kinds else ()
    if "day" in kinds.values():
        return (*period, file.low_ms // DAY_MS)
    return (*period, month_of(file.low_ms)) if "month" in kinds.values() else period


def month_of(ms: int) -> int:
    """Which month of the calendar of UTC, counted on from year to year."""
    at = datetime.fromtimestamp(ms / 1_000, UTC)
    return at.year * 12 + at.month - 1


def small_files(table: Table, files: Iterable[File]) -> list[File]:
    """Files below `SMALL_BYTES` that another small one could be joined with."""
    small = [file for file in files if file.bytes < SMALL_BYTES]
    shared = Counter(partition_of(table, file) for file in small)
    return [file for file in small if shared[partition_of(table, file)] > 1]


def health_of(table: Table, look: Look, now_ms: int) -> Health:
    """How well this table is kept."""
    small = len(small_files(table, look.files))
    committed_ms = max((one.at_ms for one in look.snapshots if one.operation != "replace"), default=0)
    faults = []
    if small > SMALL_MAX:
        faults.append(f"{small:,} small files, above {SMALL_MAX:,}: run `artery lake compact {table.name}`")
    if len(look.snapshots) > SNAPSHOTS_MAX:
        faults.append(
            f"{len(look.snapshots):,} snapshots, above {SNAPSHOTS_MAX}: run `artery lake expire {table.name}`"
        )
    files = len(look.files)
    return Health(
        table.name,
        sum(file.rows for file in look.files),
        files,
        sum(file.bytes for file in look.files),
        small,
        round(small / files, 3) if files else 0.0,
        len(look.snapshots),
        committed_ms,
        max((file.high_ms for file in look.files), default=0),
        not faults,
        "; ".join(faults) or ("well kept" if files else "empty"),
    )
