"""Keeps the tables small: old snapshots expire, an hour's many files become one. Runs between two batches."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from artery.lake.places import NAME
from artery.lake.tables import BOOKS, TABLES, TRADES, Table
from artery.telemetry import logger

COMMITS = 60
"""How many commits a table takes before its old snapshots are looked at."""
KEEP_SNAPSHOTS = 20
KEEP_MS = 600_000
HOUR_US = 3_600_000_000
_APPENDED = (TRADES, BOOKS)
_log = logger("pipeline")


class Upkeep:
    """What is due, decided by the number of commits and by the hour."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._seen: dict[str, int] = {}
        self._hour = self._now_hour()

    def run(self, session: Any, commits: Mapping[str, int]) -> None:
        """Do what is due after a batch; what fails here is said and tried again later, because it is no loss."""
        try:
            if self._now_hour() > self._hour:
                for table in _APPENDED:
                    compact(session, table, "ts", self._hour * HOUR_US, self._now_hour() * HOUR_US)
                self._hour = self._now_hour()
            for name, count in commits.items():
                if count - self._seen.get(name, 0) >= COMMITS:
                    self._seen[name] = count
                    expire(session, TABLES[name], int(self._clock() * 1_000) - KEEP_MS)
        except Exception as error:  # Spark raises whatever its parts do
            self._hour = self._now_hour()
            _log.warning("the lake's upkeep failed", error=str(error).splitlines()[0][:200])

    def _now_hour(self) -> int:
        return int(self._clock() // 3_600)


def expire(session: Any, table: Table, before_ms: int) -> None:
    """Remove snapshots from before this time, and the files that only they name; the newest ones stay."""
    load = session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    found = load(session._jsparkSession, f"{NAME}.{table.full_name}")
    found.expireSnapshots().expireOlderThan(before_ms).retainLast(KEEP_SNAPSHOTS).commit()


def compact(session: Any, table: Table, time_column: str, low_us: int, high_us: int) -> None:
    """Make one file of those whose rows lie between these times; readers notice nothing."""
    where = f"{time_column} >= timestamp_micros({low_us}) AND {time_column} < timestamp_micros({high_us})"
    session.sql(
        f"CALL {NAME}.system.rewrite_data_files(table => '{table.full_name}', where => '{where}',"
        " options => map('min-input-files', '2', 'max-concurrent-file-group-rewrites', '1'))"
    ).collect()
