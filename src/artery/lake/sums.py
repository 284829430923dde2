"""What was traded, summed by market and minute, and the place in the log up to which that is all."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute
from pyiceberg.expressions import And, GreaterThanOrEqual
from pyiceberg.table import Table as IcebergTable

from artery.lake.tables import EXACT
from artery.model.fold import AHEAD_MAX_MS, SIZE_MAX

pc: Any = compute  # its stubs know no decimals
MINUTE_MS = 60_000
_EXACT = Context(prec=200)
_FACTOR = pa.decimal256(37, 18)
"""One digit less than the lake keeps, so that the product of two has room; prices have far fewer."""

Sums = tuple[Decimal, Decimal]
"""Price times size, and size, of some trades."""


class Traded(msgspec.Struct, frozen=True):
    """The sums of each ticker by the start of the minute, its newest trade's place in its series, and the position in
    the trade stream that all of it reaches."""

    position: str
    sums: Mapping[str, Mapping[int, Sums]] = {}
    reached: Mapping[str, tuple[int, int]] = {}


def traded(handle: IcebergTable, snapshot_id: int, position: str, start_ms: int) -> Traded:
    """The trades since then as this snapshot has them; foreign and absurd ones are left out."""
    since = datetime.fromtimestamp(start_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    wanted = And(GreaterThanOrEqual("ts", since), GreaterThanOrEqual("epoch", 1))
    names = ("ticker", "ts", "price", "size", "epoch", "seq", "received")
    scan = handle.scan(row_filter=wanted, snapshot_id=snapshot_id, selected_fields=names)
    sums: dict[str, dict[int, Sums]] = {}
    reached: dict[str, tuple[int, int]] = {}
    for batch in scan.to_arrow_batch_reader():
        rows = pa.Table.from_batches([batch])
        for ticker, minute, value, size in _summed(_counting(rows)):
            mine = sums.setdefault(ticker, {})
            old = mine.get(minute, (Decimal(0), Decimal(0)))
            mine[minute] = _EXACT.add(old[0], value), _EXACT.add(old[1], size)
        for ticker, epoch, seq in _last(rows):
            reached[ticker] = max((epoch, seq), reached.get(ticker, (0, 0)))
    return Traded(position, sums, reached)


def _counting(rows: pa.Table) -> pa.Table:
    """As `fold.counts` has it."""
    ahead = pc.subtract(rows["ts"], rows["received"])
    sound = pc.less(rows["size"], pa.scalar(SIZE_MAX, EXACT))
    return rows.filter(pc.and_(sound, pc.less_equal(ahead, pa.scalar(AHEAD_MAX_MS * 1_000, pa.duration("us")))))


def _summed(rows: pa.Table) -> list[tuple[str, int, Decimal, Decimal]]:
    ms = pc.divide(rows["ts"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 1_000)
    price, size = (rows[name].cast(_FACTOR) for name in ("price", "size"))
    minutes = pc.multiply(pc.divide(ms, MINUTE_MS), MINUTE_MS)
    columns = [rows["ticker"], minutes, pc.multiply(price, size), size]
    made = pa.table(columns, names=["ticker", "minute", "value", "size"])
    found = made.group_by(["ticker", "minute"]).aggregate([("value", "sum"), ("size", "sum")])
    each = [found[name].to_pylist() for name in ("ticker", "minute", "value_sum", "size_sum")]
    return list(zip(*each, strict=True))


def _last(rows: pa.Table) -> list[tuple[str, int, int]]:
    found = rows.group_by(["ticker", "epoch"]).aggregate([("seq", "max")])
    return list(zip(*[found[name].to_pylist() for name in ("ticker", "epoch", "seq_max")], strict=True))
