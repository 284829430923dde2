"""Trades and candles of a large batch as files of their tables, written by the task that has read them.

Nothing is visible until the driver commits them (`appends.py`). To hand so many rows to Java, which would write the
same file, takes many times as long.
"""

import os
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.lake.tables import OHLC, PROPERTIES, TRADES, Table

pc: Any = compute  # its stubs do not know timestamps
LEAST = {TRADES.name: 20_000, OHLC.name: 1_000}
"""Rows of a batch from which on they are written as files; fewer are merged as rows."""
PART_LEAST = {TRADES.name: 1, OHLC.name: 500}
"""A day of trades, or a month of candles of a period, that has fewer is merged as rows beside the files."""
PARTS_MAX = 8
"""A batch with more such days or months is merged as rows: each has a file of its own."""
_GROUP_ROWS = 50_000
_DICTIONARIES = {
    TRADES.name: ["ticker", "side", "provider", "epoch", "price", "size"],
    OHLC.name: ["ticker", "period_s", "rev", "source", "updated"],
}
_DAY_US = 86_400_000_000
_PERIODS = 1 << 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Home(msgspec.Struct, frozen=True):
    """Where a table keeps its files, and the ids of its columns in the order of its schema."""

    folder: str
    ids: tuple[int, ...]
    least: int


class Written(msgspec.Struct, frozen=True):
    """A file that no commit names yet: its table, which part of it, its rows, their first and last time in µs, of
    candles the period, and by how much the latest trade came late."""

    table: str
    path: str
    part: str
    rows: int
    low: int
    high: int
    period_s: int = 0
    late_ms: int = 0


def write(rows: pa.Table, table: Table, home: Home) -> tuple[list[Written], pa.Table]:
    """Files with these rows of a table, one for each of its parts; and the rows that are better merged as such."""
    if rows.num_rows < home.least:
        return [], rows
    numbers = _days(rows) if table is TRADES else _months(rows)
    counts = pc.value_counts(numbers).to_pylist()
    least = min(PART_LEAST[table.name], home.least)
    found = sorted(count["values"] for count in counts if count["counts"] >= least)
    if not found or len(found) > PARTS_MAX or found[0] < 0:
        return [], rows
    parts = [rows] if len(counts) == 1 else [rows.filter(pc.equal(numbers, number)) for number in found]
    rest = rows.filter(pc.invert(pc.is_in(numbers, pa.array(found, pa.int64()))))
    return [_write(part, table, home) for part in parts], rest


def _days(trades: pa.Table) -> Any:
    return pc.divide(trades[TRADES.time].cast(pa.int64()), _DAY_US)


def _months(candles: pa.Table) -> Any:
    """Month and period in one number."""
    start = candles[OHLC.time]
    months = pc.add(pc.multiply(pc.year(start), 12), pc.month(start))
    return pc.add(pc.multiply(months, _PERIODS), candles["period_s"].cast(pa.int64()))


def _write(rows: pa.Table, table: Table, home: Home) -> Written:
    low, high = (pc.cast(bound(rows[table.time]), pa.int64()).as_py() for bound in (pc.min, pc.max))
    first, late_ms, period_s = _EPOCH + timedelta(microseconds=low), 0, 0
    if table is TRADES:
        part = folder = f"ts_day={first:%Y-%m-%d}"
        late_us = pc.subtract(rows["received"].cast(pa.int64()), rows["ts"].cast(pa.int64()))
        late_ms = pc.max(late_us).as_py() // 1_000
    else:
        period_s = rows["period_s"][0].as_py()
        months = (first.year - 1970) * 12 + first.month - 1  # as Iceberg counts them; its folders are for people
        part, folder = (f"period_s_identity={period_s}/start_month={month}" for month in (months, f"{first:%Y-%m}"))
    path = Path(home.folder) / "data" / folder / f"{uuid.uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_parquet(rows.cast(_schema(table, home.ids)), path, _DICTIONARIES[table.name])
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Written(table.name, str(path), part, rows.num_rows, low, high, period_s, late_ms)


def _write_parquet(rows: pa.Table, path: Path, dictionaries: list[str]) -> None:
    from pyarrow import parquet

    write_table: Any = parquet.write_table  # its stubs do not know that some columns may have a dictionary
    with path.open("xb") as file:
        write_table(
            rows,
            file,
            compression=PROPERTIES["write.parquet.compression-codec"],
            row_group_size=_GROUP_ROWS,
            use_dictionary=dictionaries,
            store_schema=False,
        )
        file.flush()
        os.fsync(file.fileno())


def _schema(table: Table, ids: Sequence[int]) -> pa.Schema:
    """Iceberg knows columns by their ids, whatever their names."""
    named = zip(table.schema, ids, strict=True)
    return pa.schema([field.with_metadata({"PARQUET:field_id": str(number)}) for field, number in named])
