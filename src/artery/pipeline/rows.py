"""What the store query's source hands to Spark: rows of the lake's tables, one of each key, and what is bad."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from artery.errors import BadEvent
from artery.lake.tables import BOOKS, GAPS, OHLC, SYMBOLS, TRADES, Table
from artery.model.events import Book, Candle, Mark, Trade
from artery.model.symbols import Symbol
from artery.model.tickers import ticker
from artery.pipeline import decode
from artery.pipeline.decode import Raw

Row = dict[str, Any]
TRADE, BOOK, CANDLE, HISTORY, GAP, BAD, END = ("trade", "book", "candle", "history", "gap", "bad", "end")
OUTCOME, SYMBOL = "outcome", "symbol"


def _struct(table: Table) -> pa.DataType:
    return pa.struct([pa.field(field.name, field.type) for field in table.schema])


SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("trade", _struct(TRADES)),
        ("book", _struct(BOOKS)),
        ("ohlc", _struct(OHLC)),
        ("gap", _struct(GAPS)),
        ("symbol", _struct(SYMBOLS)),
        (
            "bad",
            pa.struct([("stream", pa.string()), ("id", pa.string()), ("line", pa.string()), ("error", pa.string())]),
        ),
        ("outcome", pa.binary()),
        ("end", pa.string()),
    ]
)
"""One column for each table, of which the row's own is set; candles and history share `ohlc`. The last page of a
client's request is in `outcome`, as its protobuf."""


class Rows:
    """Collects the rows of one micro-batch; of two with the same key the newer stays."""

    def __init__(self, book_ms: int) -> None:
        self._book_ms = book_ms
        self._rows: dict[tuple[Any, ...], Row] = {}

    def take(self, stream: str, entries: Iterable[Raw]) -> None:
        """Take in entries of one stream, oldest first."""
        add = self._adders()[stream]
        for raw in entries:
            try:
                add(raw)
            except BadEvent as error:
                self._rows[(BAD, stream, raw[0])] = {"kind": BAD, "bad": _bad(stream, raw, error)}

    def record_batch(self, end: dict[str, str]) -> pa.RecordBatch:
        """All rows as Spark takes them, and how far they reach."""
        reached = {"kind": END, "end": msgspec.json.encode(end).decode()}
        return pa.RecordBatch.from_pylist([*self._rows.values(), reached], schema=SCHEMA)

    def _adders(self) -> dict[str, Callable[[Raw], None]]:
        return {
            "trade": self._trade,
            "book": self._book,
            "candle": self._candle,
            "feed": self._feed,
            "history": self._history,
            "symbol": self._symbol,
        }

    def _trade(self, raw: Raw) -> None:
        trade = _expect(raw, Trade)
        key = (TRADE, ticker(trade.provider, trade.coin), trade.ts, trade.tid)
        self._rows.setdefault(key, {"kind": TRADE, "trade": _trade_row(trade)})

    def _book(self, raw: Raw) -> None:
        book = _expect(raw, Book)
        key = (BOOK, ticker(book.provider, book.coin), book.ts // self._book_ms)
        self._rows[key] = {"kind": BOOK, "book": _book_row(book)}

    def _candle(self, raw: Raw) -> None:
        candle = _expect(raw, Candle)
        key = (CANDLE, *candle.key)
        old = self._rows.get(key)
        row = _ohlc_row(candle, "live")
        if old is None or _newer(row, old["ohlc"]):
            self._rows[key] = {"kind": CANDLE, "ohlc": row}

    def _feed(self, raw: Raw) -> None:
        event = decode.event(raw)
        if isinstance(event, Mark):
            key = (GAP, event.provider, event.coin, event.from_ms, event.to_ms)
            self._rows[key] = {"kind": GAP, "gap": _gap_row(event)}

    def _history(self, raw: Raw) -> None:
        for candle in decode.page(raw):
            self._rows[(HISTORY, *candle.key)] = {"kind": HISTORY, "ohlc": _ohlc_row(candle, "history")}
        if (last := decode.closing(raw)) is not None:
            self._rows.setdefault((OUTCOME, last.request_id), {"kind": OUTCOME, "outcome": last.SerializeToString()})

    def _symbol(self, raw: Raw) -> None:
        symbol = decode.symbol(raw)
        key = (SYMBOL, symbol.ticker, symbol.version)
        self._rows.setdefault(key, {"kind": SYMBOL, "symbol": _symbol_row(symbol)})


def _expect(raw: Raw, kind: type[Any]) -> Any:
    event = decode.event(raw)
    if not isinstance(event, kind):
        raise BadEvent(f"a {kind.__name__.upper()} is expected here, not a {type(event).__name__.upper()}")
    return event


def _newer(row: Row, old: Row) -> bool:
    return (row["closed"], row["rev"], row["updated"]) >= (old["closed"], old["rev"], old["updated"])


def _trade_row(trade: Trade) -> Row:
    return {
        "ticker": ticker(trade.provider, trade.coin),
        "ts": _time(trade.ts),
        "tid": trade.tid,
        "price": trade.px,
        "size": trade.sz,
        "side": trade.side,
        "provider": trade.provider,
        "epoch": trade.epoch,
        "seq": trade.seq,
        "received": _time(trade.event_ts),
    }


def _book_row(book: Book) -> Row:
    return {
        "ticker": ticker(book.provider, book.coin),
        "ts": _time(book.ts),
        "bids": [{"price": price, "size": size} for price, size in book.bids],
        "asks": [{"price": price, "size": size} for price, size in book.asks],
        "depth": book.depth,
    }


def _ohlc_row(candle: Candle, source: str) -> Row:
    return {
        "ticker": ticker(candle.provider, candle.coin),
        "period_s": candle.period.seconds,
        "start": _time(candle.start_ts),
        "open": candle.o,
        "high": candle.h,
        "low": candle.l,
        "close": candle.c,
        "volume": candle.v,
        "trades": candle.n,
        "closed": candle.closed,
        "rev": candle.rev,
        "source": source,
        "updated": _time(candle.event_ts),
    }


def _gap_row(mark: Mark) -> Row:
    return {
        "provider": mark.provider,
        "market": mark.coin,
        "from": _time(mark.from_ms),
        "to": _time(mark.to_ms),
        "cause": mark.cause,
        "repaired_at": None,
        "repaired_from": None,
    }


def _symbol_row(symbol: Symbol) -> Row:
    return {
        "ticker": symbol.ticker,
        "version": symbol.version,
        "provider": symbol.provider,
        "market": symbol.coin,
        "base": symbol.base,
        "quote": symbol.quote,
        "tick_size": symbol.tick_size,
        "size_step": symbol.size_step,
        "status": symbol.status,
        "valid_from": _time(symbol.valid_from),
    }


def _bad(stream: str, raw: Raw, error: BadEvent) -> Row:
    return {"stream": stream, "id": raw[0], "line": raw[1].decode(errors="replace"), "error": str(error)[:500]}


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)
