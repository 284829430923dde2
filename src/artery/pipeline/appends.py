"""Commits the files that a batch's task has written, if none of their rows is in the lake already."""

from collections.abc import Mapping, Sequence
from typing import Any

from artery.lake.places import path_of
from artery.lake.tables import OHLC, TABLES, TRADES, Table
from artery.pipeline.data_files import LEAST, Home, Written
from artery.pipeline.upkeep import load

LOOK_FILES, LOOK_BYTES = 20, 64 * 1024 * 1024
"""How many files of the table, and how large in all, are looked through for rows of the batch; beyond that they are
merged."""


def homes(session: Any) -> dict[str, Home]:
    """Where a task may write files of which tables; none that is no folder that it can write to."""
    # Whose catalogs Spark knows is a matter of the thread, and this one may never have used the session.
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    found = {table.name: _home(session, table) for table in (TRADES, OHLC)}
    return {name: home for name, home in found.items() if home is not None}


def _home(session: Any, table: Table) -> Home | None:
    handle = load(session, table)
    if not handle.location().startswith("file:"):
        return None
    schema = handle.schema()
    ids = tuple(int(schema.findField(name).fieldId()) for name in table.schema.names)
    return Home(str(path_of(handle.location())), ids, LEAST[table.name])


def append_new(session: Any, files: Sequence[Written], summary: Mapping[str, str]) -> bool:
    """Commit all of these files of a table at once, the summary with them, if it is certain that the lake has none of
    their rows; whether it was done.

    The table has one writer. One that has slept while another took its place is refused by the table when it wakes:
    what was not there when it looked must not be there when it commits.
    """
    table = TABLES[files[0].table]
    handle = load(session, table)
    meeting = _meeting(session, table, files)
    near = _near(handle, meeting)
    if near is None or (near and _share(near, [one.path for one in files], table)):
        return False
    adding = handle.newOverwrite().conflictDetectionFilter(meeting).validateNoConflictingData()
    if handle.currentSnapshot() is not None:
        adding = adding.validateFromSnapshot(handle.currentSnapshot().snapshotId())
    for one in files:
        adding = adding.addFile(_data_file(session, handle, one))
    for name, value in summary.items():
        adding = adding.set(name, value)
    adding.commit()
    return True


def _meeting(session: Any, table: Table, files: Sequence[Written]) -> Any:
    """Whatever is of the times and periods of these files, as Iceberg says it."""
    expressions = session._jvm.org.apache.iceberg.expressions.Expressions
    bounds = [(table.time, min(one.low for one in files), max(one.high for one in files))]
    periods = sorted({one.period_s for one in files})
    bounds += [("period_s", periods[0], periods[-1])] if periods[0] else []
    found = expressions.alwaysTrue()
    for name, low, high in bounds:
        for part in (expressions.greaterThanOrEqual(name, low), expressions.lessThanOrEqual(name, high)):
            found = getattr(expressions, "and")(found, part)
    return found


def _near(handle: Any, meeting: Any) -> list[str] | None:
    """The table's files that may hold such rows; None if that is much to read."""
    tasks = handle.newScan().filter(meeting).planFiles()
    try:
        found: list[str] = []
        size, each = 0, tasks.iterator()
        while each.hasNext():
            file = each.next().file()
            found.append(str(path_of(file.location())))
            size += file.fileSizeInBytes()
            if len(found) > LOOK_FILES or size > LOOK_BYTES:
                return None
        return found
    finally:
        tasks.close()


def _share(theirs: Sequence[str], ours: Sequence[str], table: Table) -> bool:
    """Whether a row of `ours` has the key of one of `theirs`; only where their times meet are rows compared."""
    import pyarrow.dataset as ds
    from pyarrow import compute

    pc: Any = compute  # its stubs do not know timestamps
    key, time = list(table.key), ds.field(table.time)

    def keys(paths: Sequence[str], like: Any = None) -> Any:
        times = None if like is None else like[table.time]
        inside = None if times is None else (time >= pc.min(times)) & (time <= pc.max(times))
        return ds.dataset(list(paths), format="parquet").to_table(columns=key, filter=inside)

    there = keys(theirs, like=keys(ours))
    return bool(there.num_rows and keys(ours, like=there).join(there, keys=key, join_type="left semi").num_rows)


def _data_file(session: Any, handle: Any, one: Written) -> Any:
    iceberg = session._jvm.org.apache.iceberg
    location = f"file://{one.path}"
    file = handle.io().newInputFile(location)
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(file, iceberg.MetricsConfig.forTable(handle))
    made = iceberg.DataFiles.builder(handle.spec()).withInputFile(file).withPath(location).withFormat("parquet")
    return made.withMetrics(metrics).withPartitionPath(one.part).build()
