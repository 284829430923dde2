"""What the lake consists of, as cells that people read."""

from artery.cli.moments import iso_text
from artery.lake.state import File, Health, Snap

TABLE_COLUMNS = ("table", "rows", "files", "small", "size", "snapshots", "committed", "health")
FILE_COLUMNS = ("from", "to", "rows", "size", "period", "file")
SNAPSHOT_COLUMNS = ("snapshot", "committed", "operation", "by", "added", "files")
_UNITS = ("B", "kB", "MB", "GB", "TB")


def table_cells(row: Health, now_ms: int) -> tuple[object, ...]:
    small = f"{row.small:,} ({row.small_share:.0%})"
    ago = span_text(now_ms - row.committed_ms) + " ago" if row.committed_ms else "never"
    return row.table, f"{row.rows:,}", f"{row.files:,}", small, size_text(row.bytes), row.snapshots, ago, row.words


def file_cells(row: File) -> tuple[object, ...]:
    period = f"{row.period_s} s" if row.period_s else ""
    times = [iso_text(ms) if ms else "" for ms in (row.low_ms, row.high_ms)]
    return *times, f"{row.rows:,}", size_text(row.bytes), period, row.path.rpartition("/")[2]


def snapshot_cells(row: Snap) -> tuple[object, ...]:
    added, files = (row.summary.get(name, "") for name in ("added-records", "total-data-files"))
    return row.id, iso_text(row.at_ms), row.operation, row.query or "upkeep", added, files


def size_text(size: float) -> str:
    """Bytes as people say them."""
    for unit in _UNITS[:-1]:
        if size < 1_000:
            return f"{size:.0f} {unit}"
        size /= 1_000
    return f"{size:.0f} {_UNITS[-1]}"


def span_text(ms: float) -> str:
    """A length of time as people say it."""
    seconds = max(0.0, ms) / 1_000
    for limit, length, unit in ((90, 1, "s"), (5_400, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"
