"""Keeps the tables small, through Spark: small files become large ones, old snapshots and what crashes left behind go.

Each step is one commit of its own and runs between two batches, because a table has one writer.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from pyspark.sql import functions as F  # noqa: N812

from artery.lake.places import NAME, QUERY
from artery.lake.state import SMALL_BYTES, File, Look, Snap
from artery.lake.tables import REQUESTS, TABLES, Table
from artery.pipeline.compaction import Job, Keep, expired
from artery.settings import Settings
from artery.telemetry import logger

TARGET_BYTES = 128 * 1024 * 1024
SORT_BYTES = 64 * 1024 * 1024
"""What is joined is put in the order of markets, so that one market's rows lie together; beyond this it is too much."""
ORPHANS_S = 600.0
"""How long the search for files that nobody names may take."""
_log = logger("pipeline")
Tell = Callable[[int, int, str], None]
"""How many steps are done, of how many, and what is being done."""


def look(session: Any, table: Table) -> Look:
    """A table as it is now, by Iceberg's own tables about it."""
    name = f"{NAME}.{table.full_name}"
    bounds = [_bound(table.time, "lower_bound"), _bound(table.time, "upper_bound")]
    period = F.col("readable_metrics.period_s.lower_bound") if "period_s" in table.schema.names else F.lit(0)
    columns = ["file_path", "record_count", "file_size_in_bytes", *bounds, period]
    found = session.table(f"{name}.files").where("content = 0").select(*columns).collect()
    files = [File(*row[:3], *(value or 0 for value in row[3:])) for row in found]
    chain = session.table(f"{name}.snapshots").collect()  # in the order of their commits
    snapshots = [_snap(number, row) for number, row in enumerate(chain, 1)]
    newest = load(session, table).currentSnapshot()
    return Look(table.name, files, snapshots, int(newest.snapshotId()) if newest is not None else 0)


def compact(session: Any, job: Job) -> None:
    """Make one file of those that the job names; readers notice nothing."""
    table = TABLES[job.table]
    where = f"`{table.time}` >= timestamp_micros({job.low_ms * 1_000})"
    where += f" AND `{table.time}` < timestamp_micros({job.high_ms * 1_000})"
    where += f" AND period_s = {job.period_s}" if job.period_s else ""
    options = {
        "min-input-files": "2",
        "min-file-size-bytes": str(SMALL_BYTES),
        "target-file-size-bytes": str(TARGET_BYTES),
        "max-file-size-bytes": str(2 * TARGET_BYTES),
        "max-concurrent-file-group-rewrites": "1",
        "partial-progress.enabled": "false",
    }
    stated = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    call = f"CALL {NAME}.system.rewrite_data_files(table => '{table.full_name}', where => '{where}'"
    if "ticker" in table.schema.names and job.bytes <= SORT_BYTES:
        call += f", strategy => 'sort', sort_order => 'ticker ASC, {table.time} ASC'"
    session.sql(f"{call}, options => map({stated}))").collect()


def expire(session: Any, table: Table, keep: Keep, now_ms: int) -> int:
    """Remove the snapshots that nobody needs, and the files that only they name; return how many went."""
    state = look(session, table)
    gone = expired(state.snapshots, state.current, keep, now_ms)
    early = len({*gone} & {*keep.announced})
    if early:
        _log.warning("snapshots go that notifications have named, as there are too many", table=table.name, count=early)
    if gone:
        removal = load(session, table).expireSnapshots().expireOlderThan(0)
        for one in gone:
            removal = removal.expireSnapshotId(one)
        removal.commit()
    return len(gone)


def announced(session: Any, since_ms: int) -> list[int]:
    """The snapshots that notifications have named since then, the newest first."""
    rows = session.table(f"{NAME}.{REQUESTS.full_name}").where(F.unix_millis("finished") >= since_ms)
    found = rows.where("snapshot_id IS NOT NULL").groupBy("snapshot_id").agg(F.max("finished").alias("at"))
    return [int(row["snapshot_id"]) for row in found.orderBy(F.desc("at")).collect()]


def remove_orphans(settings: Settings) -> int:
    """Remove files that no snapshot names; return how many. In a process of its own, which needs no JVM."""
    command = [sys.executable, "-m", "artery.lake.orphans", str(settings.folder)]
    url = settings.lake.catalog_url
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=ORPHANS_S, input=url)
    return int(msgspec.json.decode(done.stdout)["files"])


def load(session: Any, table: Table) -> Any:
    """Iceberg's own handle of a table, in the JVM."""
    found = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    return found(session._jsparkSession, f"{NAME}.{table.full_name}")


def _bound(column: str, which: str) -> Any:
    return F.unix_millis(F.col(f"readable_metrics.`{column}`.{which}"))


def _snap(number: int, row: Any) -> Snap:
    summary = row["summary"] or {}
    at_ms = int(row["committed_at"].timestamp() * 1_000)
    return Snap(row["snapshot_id"], row["parent_id"] or 0, at_ms, number, row["operation"], summary.get(QUERY, ""))
