"""Trades of a large batch as files of their table, written by the task that has read them.

Nothing is visible until the driver commits them (`appends.py`). To hand so many rows to Java, which would write the
same file, takes many times as long.
"""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.lake.tables import PROPERTIES, TRADES

pc: Any = compute  # its stubs do not know timestamps
LEAST = 20_000
"""Trades of a batch from which on they are written as files; fewer are merged as rows."""
DAYS_MAX = 8
"""A batch with trades of more days is merged as rows: a day has a file of its own."""
_GROUP_ROWS = 50_000
_DICTIONARIES = ["ticker", "side", "provider", "epoch", "price", "size"]
_DAY_US = 86_400_000_000


class Home(msgspec.Struct, frozen=True):
    """Where the table `trades` keeps its files, and the ids of its columns in the order of its schema."""

    folder: str
    ids: tuple[int, ...]
    least: int = LEAST


class Written(msgspec.Struct, frozen=True):
    """A file that no commit names yet: its day, its rows, their first and last time in µs, how late the latest came."""

    path: str
    day: str
    rows: int
    low: int
    high: int
    late_ms: int


def write(trades: pa.Table, home: Home) -> list[Written] | None:
    """Files with these rows of `trades`, one for each day; None if they are better merged as rows."""
    if trades.num_rows < home.least:
        return None
    days = pc.divide(trades["ts"].cast(pa.int64()), _DAY_US)
    found = sorted(pc.unique(days).to_pylist())
    if len(found) > DAYS_MAX or found[0] < 0:
        return None
    parts = [trades] if len(found) == 1 else [trades.filter(pc.equal(days, day)) for day in found]
    return [_write(part, home) for part in parts]


def _write(trades: pa.Table, home: Home) -> Written:
    low, high = (pc.cast(bound(trades["ts"]), pa.int64()).as_py() for bound in (pc.min, pc.max))
    late_us = pc.subtract(trades["received"].cast(pa.int64()), trades["ts"].cast(pa.int64()))
    day = pc.strftime(pc.min(trades["ts"]), format="%Y-%m-%d").as_py()
    path = Path(home.folder) / "data" / f"ts_day={day}" / f"{uuid.uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_parquet(trades.cast(_schema(home.ids)), path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Written(str(path), day, trades.num_rows, low, high, pc.max(late_us).as_py() // 1_000)


def _write_parquet(trades: pa.Table, path: Path) -> None:
    from pyarrow import parquet

    write_table: Any = parquet.write_table  # its stubs do not know that some columns may have a dictionary
    with path.open("xb") as file:
        write_table(
            trades,
            file,
            compression=PROPERTIES["write.parquet.compression-codec"],
            row_group_size=_GROUP_ROWS,
            use_dictionary=_DICTIONARIES,
            store_schema=False,
        )
        file.flush()
        os.fsync(file.fileno())


def _schema(ids: Sequence[int]) -> pa.Schema:
    """Iceberg knows columns by their ids, whatever their names."""
    named = zip(TRADES.schema, ids, strict=True)
    return pa.schema([field.with_metadata({"PARQUET:field_id": str(number)}) for field, number in named])
