"""Reads for everyone, without a JVM. A lake that is not there yet reads as empty."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThan, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from artery.errors import NotFound, Unavailable
from artery.lake.catalog import open_catalog, translated
from artery.lake.places import LOG, NAME, POSITIONS, QUERY, catalog_file, on_server, path_of
from artery.lake.sums import Traded, traded
from artery.lake.tables import GAPS, NAMESPACE, OHLC, STREAMS, SYMBOLS, TABLES, TIME, TRADES, Table
from artery.model.codec import LATEST_MS

ROWS_MAX = 100_000
START = "0"
"""The position of a stream of which nothing is in the lake."""

_FILES_AT_ONCE = 8
_BOUND_CUT = 16
"""Iceberg cuts a text's bounds here, so that a longer one may stand for several."""
_NO_TABLE = ("no such table", "UndefinedTable")
_ARRIVAL = ("ts", "tid", "price", "size", "side", "epoch", "seq", "received")
_LOCATION = text(
    "SELECT metadata_location FROM iceberg_tables"
    f" WHERE catalog_name = '{NAME}' AND table_namespace = '{NAMESPACE}' AND table_name = :name"
)


class Lake:
    """The tables of one data folder. Thread-safe; a handle is kept until its table has a newer commit."""

    def __init__(self, folder: Path, log: int | None = None, catalog_url: str = "") -> None:
        self.log = log
        """The id of the log in use, if that matters: positions of another one mean nothing in it."""
        self._folder = folder
        self._catalog_url = catalog_url
        self._lock = threading.Lock()
        self._catalog: SqlCatalog | None = None
        self._handles: dict[str, IcebergTable] = {}

    def candles(self, ticker: str, period_s: int, start_ms: int, end_ms: int, limit: int = ROWS_MAX) -> pa.Table:
        """The newest `limit` candles that start in [start_ms, end_ms), oldest first."""
        wanted = And(EqualTo("ticker", ticker), EqualTo("period_s", period_s))
        return self._newest(OHLC, "start", wanted, start_ms, end_ms, limit)

    def candles_at(
        self, snapshot_id: int, ticker: str, period_s: int, start_ms: int, end_ms: int, names: Sequence[str]
    ) -> pa.Table:
        """These columns of every candle that started in [start_ms, end_ms) when this snapshot was the newest, oldest
        first."""
        schema = pa.schema([OHLC.schema.field(name) for name in names])
        with translated("read"):
            handle, tasks, row_filter = self._at(snapshot_id, ticker, period_s, start_ms, end_ms)
            files = [task for _, task in reversed(_newest_first(handle, "start", tasks))]
            if all(task.file.file_path.startswith("file:") and not task.delete_files for task in files):
                found = _plain(handle, files, ticker, start_ms, end_ms, schema)
            else:
                scan = ArrowScan(handle.metadata, handle.io, handle.schema().select(*names), row_filter)
                found = scan.to_table(files).select(names).cast(schema)
        starts = found.column("start")
        in_order = found.num_rows < 2 or pc.all(pc.less_equal(starts[:-1], starts[1:])).as_py()
        return found if in_order else found.sort_by([("start", "ascending")])

    def candle_files(self, snapshot_id: int, ticker: str, period_s: int, start_ms: int, end_ms: int) -> list[str]:
        """The files in which these candles are."""
        with translated("read"):
            _, tasks, _ = self._at(snapshot_id, ticker, period_s, start_ms, end_ms)
        return [str(path_of(task.file.file_path)) for task in tasks]

    def _at(
        self, snapshot_id: int, ticker: str, period_s: int, start_ms: int, end_ms: int
    ) -> tuple[IcebergTable, list[FileScanTask], BooleanExpression]:
        handle = self._table(OHLC)
        if handle is None or handle.snapshot_by_id(snapshot_id) is None:
            raise NotFound(f"the lake has no snapshot {snapshot_id} of its candles any more: ask for the history again")
        wanted = And(EqualTo("ticker", ticker), EqualTo("period_s", period_s))
        row_filter = And(wanted, GreaterThanOrEqual("start", _iso(start_ms)), LessThan("start", _iso(end_ms)))
        return handle, list(handle.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files()), row_filter

    def trades(self, ticker: str, start_ms: int, end_ms: int, limit: int = ROWS_MAX) -> pa.Table:
        """The newest `limit` trades in [start_ms, end_ms), oldest first."""
        return self._newest(TRADES, "ts", EqualTo("ticker", ticker), start_ms, end_ms, limit)

    def trade_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]:
        """Times that cut the trades since `start_ms` into about so many rows each; the last piece has no end."""
        return self._cuts(TRADES, "ts", EqualTo("ticker", ticker), start_ms, rows_max)

    def arrivals(self, ticker: str, start_ms: int, end_ms: int) -> pa.Table:
        """Every trade that arrived in [start_ms, end_ms), in the order of its place; what has no place is left out."""
        wanted = And(EqualTo("ticker", ticker), GreaterThanOrEqual("epoch", 1))
        found = self._all(TRADES, "received", wanted, start_ms, end_ms, _ARRIVAL)
        return found.sort_by([("epoch", "ascending"), ("seq", "ascending")])

    def arrival_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]:
        """Times that cut what arrived since `start_ms` into about so many rows each; the last piece has no end."""
        return self._cuts(TRADES, "received", EqualTo("ticker", ticker), start_ms, rows_max)

    def revisions(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, end_ms: int) -> pa.Table:
        """Every candle that starts in [start_ms, end_ms) and was written at or after `updated_ms`, oldest first."""
        found = self._all(OHLC, "start", _revised(ticker, period_s, updated_ms), start_ms, end_ms)
        return found.sort_by([("start", "ascending")])

    def live_starts(self, ticker: str, period_s: int, start_ms: int, end_ms: int) -> Any:
        """When each closed candle that the pipeline has made of a feed's trades begins, in ms, in no order."""
        wanted = And(EqualTo("ticker", ticker), EqualTo("period_s", period_s))
        made = And(wanted, EqualTo("closed", True), EqualTo("source", "live"))
        found = self._all(OHLC, "start", made, start_ms, end_ms, ("start",))
        return pc.divide(found["start"].cast(pa.int64()), 1_000).to_numpy()

    def revision_cuts(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, rows_max: int) -> list[int]:
        """Times that cut these candles into about so many rows each; the last piece has no end."""
        return self._cuts(OHLC, "start", _revised(ticker, period_s, updated_ms), start_ms, rows_max)

    def gaps(self, provider: str | None, since_ms: int, limit: int = ROWS_MAX) -> pa.Table:
        """The newest `limit` holes of a provider's feeds, or of all, that end after `since_ms`, oldest first."""
        late = GreaterThan("to", _iso(since_ms))
        wanted = late if provider is None else And(late, EqualTo("provider", provider))
        return self._newest(GAPS, "from", wanted, 0, LATEST_MS, limit)

    def scan(self, name: str) -> pa.Table:
        """Every row of a table; meant for small tables and for tests."""
        table = TABLES[name]
        return self._again_if_moved(lambda: self._scan_all(table))

    def symbols(self) -> pa.Table:
        """The newest version of every market's metadata."""
        found = self.scan(SYMBOLS.name).sort_by([("ticker", "ascending"), ("version", "descending")])
        names = found["ticker"].to_pylist()
        return found.filter(pa.array([at == 0 or names[at - 1] != name for at, name in enumerate(names)], pa.bool_()))

    def snapshot(self, name: str) -> int:
        """The table's newest snapshot, 0 where it has none."""
        with translated("read"):
            handle = self._table(TABLES[name])
            newest = handle.current_snapshot() if handle else None
            return newest.snapshot_id if newest else 0

    def positions(self) -> dict[str, str]:
        """How far in each stream of the bus the lake has come, by the word of its own commits."""
        result = dict.fromkeys(STREAMS, START)
        with translated("read"):
            for table in TABLES.values():
                named = positions_of(newest_commit(self._table(table), "store"), self.log) if table.streams else {}
                for stream in table.streams:
                    result[stream] = max(result[stream], named.get(stream, START), key=_place)
        return result

    def traded(self, start_ms: int) -> Traded:
        """What was traded since then, by market and minute, up to the position that a commit of trades names.

        Of commits that name the same position the first is read: those after it may hold a part of the next batch.
        """
        with translated("read"):
            handle = self._table(TRADES)
            newest = newest_commit(handle, "store")
            position = positions_of(newest, self.log).get("trade", START)
            if handle is None or newest is None or position == START:
                return Traded(START)
            named = [one for one in handle.metadata.snapshots if _query_of(one) == "store"]
            same = [one for one in named if positions_of(one, self.log).get("trade", START) == position]
            whole = min(same, key=lambda one: one.sequence_number or 0)
            return traded(handle, whole.snapshot_id, position, start_ms)

    def handle(self, table: Table) -> IcebergTable | None:
        """The table as it is now, for those who look at its metadata; None if it is not there."""
        return self._table(table)

    def close(self) -> None:
        with self._lock:
            if self._catalog:
                self._catalog.engine.dispose()
            self._catalog = None
            self._handles.clear()

    def _newest(
        self, table: Table, time: str, wanted: BooleanExpression, start_ms: int, end_ms: int, limit: int
    ) -> pa.Table:
        limit = min(limit, ROWS_MAX)
        if limit <= 0 or start_ms >= end_ms:
            return table.schema.empty_table()
        row_filter = And(wanted, GreaterThanOrEqual(time, _iso(start_ms)), LessThan(time, _iso(end_ms)))
        found = self._again_if_moved(lambda: self._read(table, time, row_filter, limit))
        return found.slice(max(0, found.num_rows - limit))

    def _all(
        self, table: Table, time: str, wanted: BooleanExpression, start_ms: int, end_ms: int, names: Sequence[str] = ()
    ) -> pa.Table:
        row_filter = And(wanted, GreaterThanOrEqual(time, _iso(start_ms)), LessThan(time, _iso(end_ms)))
        return self._again_if_moved(lambda: self._read_all(table, row_filter, names or table.schema.names))

    def _read_all(self, table: Table, row_filter: BooleanExpression, names: Sequence[str]) -> pa.Table:
        schema = pa.schema([table.schema.field(name) for name in names])
        handle = self._table(table)
        if handle is None or handle.current_snapshot() is None:
            return schema.empty_table()
        tasks = list(handle.scan(row_filter=row_filter).plan_files())
        scan = ArrowScan(handle.metadata, handle.io, handle.schema().select(*names), row_filter)
        rows: pa.Table = scan.to_table(tasks).select(names).cast(schema)
        return rows

    def _cuts(self, table: Table, time: str, wanted: BooleanExpression, start_ms: int, rows_max: int) -> list[int]:
        with translated("read"):
            handle = self._table(table)
            if handle is None or handle.current_snapshot() is None:
                return [start_ms]
            row_filter = And(wanted, GreaterThanOrEqual(time, _iso(start_ms)))
            tasks = handle.scan(row_filter=row_filter).plan_files()
            return cuts([_reach(handle, time, task) for task in tasks], start_ms, rows_max)

    def _again_if_moved(self, read: Callable[[], pa.Table]) -> pa.Table:
        """A file may be rewritten between plan and read; then the newer snapshot has its rows."""
        try:
            with translated("read"):
                return read()
        except Unavailable as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
        with self._lock:
            self._handles.clear()
        with translated("read"):
            return read()

    def _scan_all(self, table: Table) -> pa.Table:
        handle = self._table(table)
        if handle is None or handle.current_snapshot() is None:
            return table.schema.empty_table()
        rows: pa.Table = handle.scan().to_arrow().cast(table.schema)
        return rows

    def _read(self, table: Table, time: str, row_filter: BooleanExpression, limit: int) -> pa.Table:
        handle = self._table(table)
        if handle is None or handle.current_snapshot() is None:
            return table.schema.empty_table()
        files = _newest_first(handle, time, list(handle.scan(row_filter=row_filter).plan_files()))
        scan = ArrowScan(handle.metadata, handle.io, handle.schema(), row_filter)
        parts: list[pa.Table] = []
        rows = 0
        for at in range(0, len(files), _FILES_AT_ONCE):
            part = scan.to_table([task for _, task in files[at : at + _FILES_AT_ONCE]]).cast(table.schema)
            parts.append(part)
            rows += part.num_rows
            if rows >= limit and _complete(parts, time, limit, files[at + _FILES_AT_ONCE :]):
                break
        found = pa.concat_tables(parts or [table.schema.empty_table()])
        order = [name for name in (time, "epoch", "seq") if name in table.schema.names]
        return found.sort_by([(name, "ascending") for name in order])

    def _table(self, table: Table) -> IcebergTable | None:
        with self._lock:
            if self._catalog is None:
                if not on_server(self._catalog_url) and not catalog_file(self._folder).exists():
                    return None
                self._catalog = open_catalog(self._folder, self._catalog_url, create=False)
            location = self._location(self._catalog, table.name)
            known = self._handles.get(table.name)
            if location and (known is None or known.metadata_location != location):
                self._handles[table.name] = known = self._catalog.load_table(table.full_name)
            return known if location else None

    @staticmethod
    def _location(catalog: SqlCatalog, name: str) -> str | None:
        try:
            with catalog.engine.connect() as connection:
                found: str | None = connection.execute(_LOCATION, {"name": name}).scalar()
                return found
        except (OperationalError, ProgrammingError) as error:
            if any(words in str(error) for words in _NO_TABLE):
                return None
            raise


def _plain(
    handle: IcebergTable, files: Sequence[FileScanTask], ticker: str, start_ms: int, end_ms: int, schema: pa.Schema
) -> pa.Table:
    """A market's candles from files as they lie, which takes half as long as to have PyIceberg look at each column of
    each file: columns of our tables are never renamed. A file of which all is wanted is read without a look at its
    rows."""
    inside = (pc.field("start") >= _moment(start_ms)) & (pc.field("start") < _moment(end_ms))
    wanted = (pc.field("ticker") == ticker) & inside
    parts = [schema.empty_table()]
    for whole, run in groupby(files, lambda task: _whole(handle, task, ticker, start_ms, end_ms)):
        paths = [str(path_of(task.file.file_path)) for task in run]
        found = dataset(paths, format="parquet").to_table(columns=schema.names, filter=None if whole else wanted)
        parts.append(found.cast(schema))
    return pa.concat_tables(parts)


def _whole(handle: IcebergTable, task: FileScanTask, ticker: str, start_ms: int, end_ms: int) -> bool:
    """Whether by its bounds every row of a file of candles is of this market and starts in [start_ms, end_ms)."""
    field = handle.schema().find_field("ticker").field_id
    bounds = {(side or {}).get(field) for side in (task.file.lower_bounds, task.file.upper_bounds)}
    if bounds != {ticker.encode()} or len(ticker) >= _BOUND_CUT:
        return False
    low, high, _ = _reach(handle, "start", task)
    return start_ms <= low and high < end_ms


def newest_commit(table: IcebergTable | None, query: str) -> Snapshot | None:
    """The newest snapshot that this query committed; snapshots between it and the current one may have expired."""
    current = table.current_snapshot() if table else None
    if table is None or current is None:
        return None
    found = [one for one in table.metadata.snapshots if _query_of(one) == query]
    older = [one for one in found if (one.sequence_number or 0) <= (current.sequence_number or 0)]
    return max(older, key=lambda one: one.sequence_number or 0, default=None)


def _query_of(snapshot: Snapshot) -> str:
    return snapshot.summary.additional_properties.get(QUERY, "") if snapshot.summary else ""


def positions_of(snapshot: Snapshot | None, log: int | None = None) -> dict[str, str]:
    """How far in each stream this commit has come; of no use if it is of another log than the one asked for."""
    if snapshot is None or snapshot.summary is None:
        return {}
    if log is not None and snapshot.summary.additional_properties.get(LOG, "0") != str(log):
        return {}
    named = snapshot.summary.additional_properties.get(POSITIONS, "{}")
    return msgspec.json.decode(named, type=dict[str, str])


def cuts(files: Sequence[tuple[int, int, int]], start_ms: int, rows_max: int) -> list[int]:
    """Where to cut files of (first time, last time, rows) so that a piece has about `rows_max` rows. Pure."""
    found, held = [start_ms], 0
    for low, high, rows in sorted(files):
        if held + rows > rows_max and low > found[-1] and held:
            found.append(low)
            held = 0
        pieces = -(-rows // rows_max)
        for piece in range(1, pieces):  # one large file: its rows lie about evenly in its time
            at = low + (high - low) * piece // pieces
            if at > found[-1]:
                found.append(at)
        held = rows // pieces if pieces > 1 else held + rows
    return found


def _reach(handle: IcebergTable, time: str, task: FileScanTask) -> tuple[int, int, int]:
    """The first and last time of a file in ms, and how many rows it has; without bounds it may begin at any time."""
    field = handle.schema().find_field(time)
    low, high = (
        from_bytes(field.field_type, bounds[field.field_id]) // 1_000 if field.field_id in (bounds or {}) else 0
        for bounds in (task.file.lower_bounds, task.file.upper_bounds)
    )
    return low, high, task.file.record_count


def _revised(ticker: str, period_s: int, updated_ms: int) -> BooleanExpression:
    wanted = And(EqualTo("ticker", ticker), EqualTo("period_s", period_s))
    return And(wanted, GreaterThanOrEqual("updated", _iso(updated_ms))) if updated_ms else wanted


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _moment(ms: int) -> Any:
    return pa.scalar(ms * 1_000, TIME)


def _newest_first(handle: IcebergTable, time: str, tasks: Sequence[FileScanTask]) -> list[tuple[int, FileScanTask]]:
    """Files with the newest time that each holds, in µs, newest first."""
    field = handle.schema().find_field(time)
    dated = [(from_bytes(field.field_type, task.file.upper_bounds[field.field_id]), task) for task in tasks]
    return sorted(dated, key=lambda pair: -pair[0])


def _complete(parts: list[pa.Table], time: str, limit: int, rest: list[tuple[int, FileScanTask]]) -> bool:
    """Whether no file of the rest can hold one of the newest `limit` rows."""
    if not rest:
        return True
    bound = pa.scalar(rest[0][0], TIME)
    return sum(part.filter(pc.greater(part[time], bound)).num_rows for part in parts) >= limit


def _place(position: str) -> tuple[int, ...]:
    """Positions of the bus compare by their numbers."""
    return tuple(int(part) for part in position.split("-"))
