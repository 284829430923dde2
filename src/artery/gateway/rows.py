"""Rows of history: candles and trades as values, and as JSON, CSV or Arrow. Pure."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from artery.errors import BadEvent
from artery.gateway.cells import decimals, ints
from artery.model.decimals import canonical
from artery.model.events import Candle, Trade
from artery.wire.artery_pb2 import OHLCBatch

_EXACT = pa.decimal128(38, 18)
_NUMBERS = re.compile(r"(?:[0-9]{1,20}(?:\.[0-9]{1,18})?(?: |$)){5}", re.ASCII)


class CandleRow(msgspec.Struct, frozen=True, gc=False):
    """One candle; of two with the same start the one with the newer `version` holds."""

    start: int
    o: str
    h: str
    l: str  # noqa: E741 (the wire's own name)
    c: str
    v: str
    n: int
    closed: bool
    rev: int

    @property
    def version(self) -> tuple[bool, int]:
        return (self.closed, self.rev)


class TradeRow(msgspec.Struct, frozen=True, gc=False):
    """One trade; `(ts, tid)` names it."""

    ts: int
    tid: str
    px: str
    sz: str
    side: str
    epoch: int
    seq: int


Row = CandleRow | TradeRow

_CANDLES: dict[str, pa.DataType] = {
    "start": pa.int64(),
    **dict.fromkeys(("o", "h", "l", "c", "v"), _EXACT),
    "n": pa.int64(),
    "closed": pa.bool_(),
    "rev": pa.int32(),
}
_TRADES: dict[str, pa.DataType] = {
    "ts": pa.int64(),
    "tid": pa.string(),
    "px": _EXACT,
    "sz": _EXACT,
    "side": pa.string(),
    "epoch": pa.int64(),
    "seq": pa.int64(),
}
CANDLES, TRADES = pa.schema(_CANDLES), pa.schema(_TRADES)


def candle_row(candle: Candle) -> CandleRow:
    return CandleRow(
        candle.start_ts,
        canonical(candle.o),
        canonical(candle.h),
        canonical(candle.l),
        canonical(candle.c),
        canonical(candle.v),
        candle.n,
        candle.closed,
        candle.rev,
    )


def trade_row(trade: Trade) -> TradeRow:
    return TradeRow(trade.ts, trade.tid, canonical(trade.px), canonical(trade.sz), trade.side, trade.epoch, trade.seq)


def page_rows(page: OHLCBatch) -> list[CandleRow]:
    """The candles of a page of history; their numbers are kept as the text they came in."""
    found = [
        CandleRow(row.start_ms, row.open, row.high, row.low, row.close, row.volume, row.trades, row.closed, 0)
        for row in page.rows
    ]
    for row in found:
        if not _NUMBERS.fullmatch(f"{row.o} {row.h} {row.l} {row.c} {row.v}"):
            raise BadEvent(f"a page of history of {page.ticker:.80} has a price that is no number")
    return found


def lake_candles(table: pa.Table) -> list[CandleRow]:
    """The lake's candles, oldest first."""
    prices = (decimals(table, name).to_pylist() for name in ("open", "high", "low", "close", "volume"))
    others = (table.column(name).to_pylist() for name in ("trades", "closed", "rev"))
    return [*map(CandleRow, ints(table, "start").tolist(), *prices, *others)]


def lake_trades(table: pa.Table) -> list[TradeRow]:
    """The lake's trades, oldest first."""
    prices = (decimals(table, name).to_pylist() for name in ("price", "size"))
    others = (table.column(name).to_pylist() for name in ("side", "epoch", "seq"))
    return [*map(TradeRow, ints(table, "ts").tolist(), table.column("tid").to_pylist(), *prices, *others)]


def joined(older: Iterable[CandleRow], newer: Iterable[CandleRow]) -> list[CandleRow]:
    """Both as one, oldest first; `newer` was written later and wins unless a closed or corrected candle would go."""
    found = {row.start: row for row in older}
    for row in newer:
        known = found.get(row.start)
        if known is None or row.version >= known.version:
            found[row.start] = row
    return [found[start] for start in sorted(found)]


def as_json(rows: Sequence[Row], head: Mapping[str, Any], name: str, next_page: str | None) -> bytes:
    return msgspec.json.encode({**head, name: rows, "next": next_page})


def as_csv(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(schema.names)
    writer.writerows([_plain(getattr(row, name)) for name in schema.names] for row in rows)
    return out.getvalue().encode()


def as_arrow(rows: Sequence[Row], schema: pa.Schema) -> bytes:
    """An Arrow IPC stream; numbers are exact decimals."""
    columns = [[_exact(getattr(row, field.name), field.type) for row in rows] for field in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _exact(value: Any, kind: pa.DataType) -> Any:
    return Decimal(value) if kind == _EXACT else value


def _plain(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value
