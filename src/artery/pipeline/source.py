"""The bus as streaming sources of Spark. Planning runs in the driver's own worker, reading in any worker."""

import random
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from artery.bus.base import place
from artery.bus.reader import BusReader, open_reader
from artery.errors import ArteryError
from artery.model.periods import DERIVED, Period
from artery.pipeline import bars, rows
from artery.pipeline.data_files import Home
from artery.pipeline.folding import trade_bars
from artery.pipeline.offsets import Offsets, Turns, plan_fast, plan_store, span

PATIENCE_S = 60.0
PAUSE_S = (0.1, 0.5)
ALONE_MAX = 3
"""How many batches of history alone may follow each other while other streams wait."""
READER = lru_cache(maxsize=4)(open_reader)
"""A worker process is used for many batches, and keeps its connection to the bus."""


class Options(msgspec.Struct, frozen=True):
    """What a source is told: where the bus is, from which positions to go on, and the limits of a batch."""

    url: str
    base: str
    start: Offsets
    trades_max: int = 400_000
    store_s: float = 0.0
    slow_s: float = 0.0
    book_ms: int = 1_000
    periods: tuple[int, ...] = tuple(period.seconds for period in DERIVED)
    homes: dict[str, Home] = {}

    @staticmethod
    def of(options: Any) -> "Options":
        return msgspec.json.decode(options["artery"], type=Options)

    def text(self) -> str:
        """As Spark's option `artery`."""
        return msgspec.json.encode(self).decode()


class Span(InputPartition):  # type: ignore[misc]
    """What one task reads: every stream from its start to its end."""

    def __init__(self, start: Offsets, end: Offsets) -> None:
        super().__init__(0)
        self.start = start
        self.end = end


class _Reader(DataSourceStreamReader):  # type: ignore[misc]
    """What both queries share: positions as offsets, and one task for a batch."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._reached = options.start

    def initialOffset(self) -> Offsets:  # noqa: N802 (Spark's name)
        return self._options.start

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        """Spark 4.1 does not say where the last batch ended, so it is remembered. While the bus is away, nothing has
        come: what is wrong is said by whoever writes there."""
        try:
            return self._plan(self._bus(), self._reached)
        except ArteryError as error:
            if not error.temporary:
                raise
            return self._reached

    def partitions(self, start: Offsets, end: Offsets) -> list[Span]:
        self._reached = end
        return [Span(start, end)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield patiently(lambda: self._read(self._bus(), partition))

    def commit(self, end: Offsets) -> None:
        """The groups are advanced by whoever has written the result, after it was written."""

    def _bus(self) -> BusReader:
        return READER(self._options.url, self._options.base)

    def _plan(self, bus: BusReader, start: Offsets) -> Offsets:
        raise TypeError("a source plans its own batches")

    def _read(self, bus: BusReader, part: Span) -> pa.RecordBatch:
        raise TypeError("a source reads its own batches")


def patiently(read: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
    """What `read` returns, also if the bus is away for a while: a task that fails ends its query."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return read()
        except ArteryError as error:
            if not error.temporary or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(*PAUSE_S))


class BarsReader(_Reader):
    """For the candle query: trades as bars, clocks, a venue's closed candles."""

    def _plan(self, bus: BusReader, start: Offsets) -> Offsets:
        return plan_fast(bus, start, self._options.trades_max)

    def _read(self, bus: BusReader, part: Span) -> pa.RecordBatch:
        periods = [Period(seconds) for seconds in self._options.periods]
        trades, feed, history = (
            span(bus, stream, part.start[stream], part.end[stream]) for stream in ("trade", "feed", "history")
        )
        found = bars.feed_rows(feed) + bars.history_rows(history, periods)
        return bars.record_batch(found, part.end, trade_bars(trades, periods))


class RowsReader(_Reader):
    """For the store query: rows of the lake's tables."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._turns = Turns(options.store_s, options.slow_s)
        self._alone = 0
        self._behind: set[str] = set()

    def _plan(self, bus: BusReader, start: Offsets) -> Offsets:
        """Someone waits for a venue's history, so it is not held up by the rest, nor the rest by it for long. A stream
        of which the last batch could not take all is due again at once."""
        trades_max = max(1, self._options.trades_max // 2)  # of these, each becomes a row
        history = plan_store(bus, start, trades_max, ())
        if history != start and self._alone < ALONE_MAX:
            self._alone += 1
            return history
        self._alone = 0
        due = {*self._turns.due(time.monotonic()), *self._behind}
        heads = {stream: bus.head(stream) for stream in due}
        end = plan_store(bus, start, trades_max, due)
        self._behind = {stream for stream, head in heads.items() if place(end[stream]) < place(head)}
        return end

    def _read(self, bus: BusReader, part: Span) -> pa.RecordBatch:
        found = rows.Rows(self._options.book_ms, self._options.homes)
        for stream, end in part.end.items():
            if place(end) > place(part.start[stream]):
                found.take(stream, span(bus, stream, part.start[stream], end))
        return found.record_batch(part.end)


class BarsSource(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("artery_bars")`."""

    @classmethod
    def name(cls) -> str:
        return "artery_bars"

    def schema(self) -> StructType:
        return from_arrow_schema(bars.SCHEMA)

    def streamReader(self, schema: StructType) -> BarsReader:  # noqa: N802
        return BarsReader(Options.of(self.options))


class RowsSource(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("artery_rows")`."""

    @classmethod
    def name(cls) -> str:
        return "artery_rows"

    def schema(self) -> StructType:
        return from_arrow_schema(rows.SCHEMA)

    def streamReader(self, schema: StructType) -> RowsReader:  # noqa: N802
        return RowsReader(Options.of(self.options))
