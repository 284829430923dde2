"""What was traded, summed by market and minute, and the place in the log up to which that is all."""

from collections.abc import Mapping, Sequence
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
from artery.model.taken import Run

pc: Any = compute  # its stubs know no decimals
MINUTE_MS = 60_000
_EXACT = Context(prec=200)
_FACTOR = pa.decimal256(37, 18)
"""One digit less than the lake keeps, so that the product of two has room; prices have far fewer."""

Sums = tuple[Decimal, Decimal]
"""Price times size, and size, of some trades."""


class Traded(msgspec.Struct, frozen=True):
    """The sums of each ticker by the start of the minute, the places of its trades in its series, and the position in
    the trade stream that all of it reaches."""

    position: str
    sums: Mapping[str, Mapping[int, Sums]] = {}
    taken: Mapping[str, Sequence[Run]] = {}


def traded(handle: IcebergTable, snapshot_id: int, position: str, start_ms: int) -> Traded:
    """The trades since then as this snapshot has them; foreign and absurd ones are left out."""
    since = datetime.fromtimestamp(start_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    wanted = And(GreaterThanOrEqual("ts", since), GreaterThanOrEqual("epoch", 1))
    names = ("ticker", "ts", "price", "size", "epoch", "seq", "received")
    scan = handle.scan(row_filter=wanted, snapshot_id=snapshot_id, selected_fields=names)
    sums: dict[str, dict[int, Sums]] = {}
    ends: dict[tuple[str, int], tuple[int, int, int]] = {}
    for batch in scan.to_arrow_batch_reader():
        rows = pa.Table.from_batches([batch])
        for ticker, minute, value, size in _summed(_counting(rows)):
            mine = sums.setdefault(ticker, {})
            old = mine.get(minute, (Decimal(0), Decimal(0)))
            mine[minute] = _EXACT.add(old[0], value), _EXACT.add(old[1], size)
        for ticker, epoch, first, last, count in _ends(rows):
            known = ends.get((ticker, epoch), (first, last, 0))
            ends[ticker, epoch] = min(first, known[0]), max(last, known[1]), count + known[2]
    return Traded(position, sums, _runs(ends))


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


def _ends(rows: pa.Table) -> list[tuple[str, int, int, int, int]]:
    found = rows.group_by(["ticker", "epoch"]).aggregate([("seq", "min"), ("seq", "max"), ("seq", "count")])
    names = ("ticker", "epoch", "seq_min", "seq_max", "seq_count")
    return list(zip(*[found[name].to_pylist() for name in names], strict=True))


def _runs(ends: Mapping[tuple[str, int], tuple[int, int, int]]) -> dict[str, list[Run]]:
    """One of each epoch; where trades do not follow each other, nobody knows which of them are there."""
    found: dict[str, list[Run]] = {}
    for (ticker, epoch), (first, last, count) in sorted(ends.items()):
        run = Run((epoch, first), (epoch, last), whole=count == last - first + 1)
        found.setdefault(ticker, []).append(run)
    return found
