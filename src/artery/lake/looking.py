"""What the lake consists of, read from its metadata without a JVM."""

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot

from artery.errors import NotFound
from artery.lake.catalog import translated
from artery.lake.places import QUERY
from artery.lake.reads import Lake
from artery.lake.state import File, Health, Look, Snap, health_of
from artery.lake.tables import TABLES, Table


def look(lake: Lake, table: Table) -> Look | None:
    """A table as it is now; None if it is not there."""
    with translated("looked at"):
        handle = lake.handle(table)
        if handle is None:
            return None
        current = handle.current_snapshot()
        tasks = handle.scan().plan_files() if current else ()
        files = [_file(handle, table, task.file) for task in tasks]
        snapshots = [_snap(one) for one in handle.metadata.snapshots]
        return Look(table.name, files, snapshots, current.snapshot_id if current else 0)


def looked_at(lake: Lake, name: str) -> Look:
    """The table of this name; or `NotFound`, which says what there is."""
    if name not in TABLES:
        raise NotFound(f"{name!r:.40} is not a table; there are {', '.join(TABLES)}")
    found = look(lake, TABLES[name])
    if found is None:
        raise NotFound("there is no lake yet: the pipeline makes it at its first start (`artery up`)")
    return found


def all_health(lake: Lake, now_ms: int) -> list[Health]:
    """How well every table is kept."""
    return [health_of(TABLES[name], looked_at(lake, name), now_ms) for name in TABLES]


def _file(handle: IcebergTable, table: Table, file: DataFile) -> File:
    low, high = (_bound(handle, table.time, bounds) // 1_000 for bounds in (file.lower_bounds, file.upper_bounds))
    period_s = _bound(handle, "period_s", file.lower_bounds) if "period_s" in table.schema.names else 0
    return File(file.file_path, file.record_count, file.file_size_in_bytes, low, high, period_s)


def _bound(handle: IcebergTable, column: str, bounds: dict[int, bytes] | None) -> int:
    if not column:
        return 0
    field = handle.schema().find_field(column)
    value = (bounds or {}).get(field.field_id)
    return int(from_bytes(field.field_type, value)) if value is not None else 0


def _snap(one: Snapshot) -> Snap:
    summary = one.summary.additional_properties if one.summary else {}
    operation = one.summary.operation.value if one.summary else ""
    number = one.sequence_number or 0
    return Snap(
        one.snapshot_id,
        one.parent_snapshot_id or 0,
        one.timestamp_ms,
        number,
        operation,
        summary.get(QUERY, ""),
        dict(summary),
    )
