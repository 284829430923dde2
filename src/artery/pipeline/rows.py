"""What the store query's source hands to Spark: rows of the lake's tables, one of each key, and what is bad."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.errors import BadEvent
from artery.lake.tables import BOOKS, GAPS, OHLC, SYMBOLS, TIME, TRADES, Table
from artery.model.events import Book, Candle, Mark
from artery.model.periods import Period
from artery.model.symbols import Symbol
from artery.model.tickers import parse_ticker, ticker
from artery.pipeline import columns, decode, pages
from artery.pipeline.data_files import Home, Written, write
from artery.pipeline.decode import Raw
from artery.pipeline.repairs import Repair

pc: Any = compute  # its stubs know neither decimals nor chunks

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


class Reached(msgspec.Struct, frozen=True):
    """What the row of kind `end` says: how far the batch reaches, which files hold its trades if no rows do, and which
    repairs end in it."""

    positions: dict[str, str]
    files: list[Written] = []
    repairs: list[Repair] = []


class Rows:
    """Collects the rows of one micro-batch; of two with the same key the newer stays."""

    def __init__(self, book_ms: int, homes: Mapping[str, Home] | None = None) -> None:
        """`homes` of tables have many rows of them written as files."""
        self._book_ms = book_ms
        self._homes = homes or {}
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._columns: list[pa.Table] = []
        self._files: list[Written] = []
        self._repairs: list[Repair] = []

    def take(self, stream: str, entries: Iterable[Raw]) -> None:
        """Take in entries of one stream, oldest first; of `trade` and `history` all at once."""
        if stream == TRADE:
            self._take_trades(entries)
            return
        if stream == HISTORY:
            self._take_history(entries)
            return
        add = self._adders()[stream]
        for raw in entries:
            try:
                add(raw)
            except BadEvent as error:
                self._give_up(stream, raw, error)

    def record_batch(self, end: dict[str, str]) -> pa.RecordBatch:
        """All rows as Spark takes them, and how far they reach."""
        reached = {"kind": END, "end": msgspec.json.encode(Reached(end, self._files, self._repairs)).decode()}
        rest = pa.Table.from_pylist([*self._rows.values(), reached], schema=SCHEMA)
        return pa.concat_tables([*self._columns, rest]).combine_chunks().to_batches()[0]

    def _adders(self) -> dict[str, Callable[[Raw], None]]:
        return {
            "book": self._book,
            "candle": self._candle,
            "feed": self._feed,
            "symbol": self._symbol,
        }

    def _take_trades(self, entries: Iterable[Raw]) -> None:
        found = columns.trades_of(entries)
        self._keep(TRADE, TRADES, _lake_trades(found.table))
        for raw, error in found.bad:
            self._give_up(TRADE, raw, error)

    def _take_history(self, entries: Iterable[Raw]) -> None:
        found = pages.pages_of(entries)
        self._keep(HISTORY, OHLC, found.table)
        self._repairs += found.repairs
        for last in found.closing:
            self._rows.setdefault((OUTCOME, last.request_id), {"kind": OUTCOME, "outcome": last.SerializeToString()})
        for raw, error in found.bad:
            self._give_up(HISTORY, raw, error)

    def _keep(self, kind: str, table: Table, found: pa.Table) -> None:
        """As files where that is better, else as rows."""
        home = self._homes.get(table.name)
        files, rest = write(found, table, home) if home else ([], found)
        self._files += files
        self._columns.append(_as_rows(kind, table, rest))

    def _give_up(self, stream: str, raw: Raw, error: BadEvent) -> None:
        self._rows[(BAD, stream, raw[0])] = {"kind": BAD, "bad": _bad(stream, raw, error)}

    def _book(self, raw: Raw) -> None:
        book = _expect(raw, Book)
        key = (BOOK, ticker(book.provider, book.coin), book.ts // self._book_ms)
        self._rows[key] = {"kind": BOOK, "book": _book_row(book)}

    def _candle(self, raw: Raw) -> None:
        candle = _expect(raw, Candle)
        key = (CANDLE, *candle.key)
        old = self._rows.get(key)
        row = pages.row_of(candle, "live")
        if old is None or _newer(row, old["ohlc"]):
            self._rows[key] = {"kind": CANDLE, "ohlc": row}

    def _feed(self, raw: Raw) -> None:
        event = decode.event(raw)
        if isinstance(event, Mark):
            key = (GAP, event.provider, event.coin, event.from_ms, event.to_ms)
            self._rows[key] = {"kind": GAP, "gap": _gap_row(event)}

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


def _lake_trades(trades: pa.Table) -> pa.Table:
    """Trades as rows of their table, each once."""
    market: Any = (
        pc.binary_join_element_wise(trades["provider"], trades["coin"], ":").combine_chunks().dictionary_encode()
    )
    names = pa.array([ticker(*name.split(":", 1)) for name in market.dictionary.to_pylist()], pa.string())
    kept = columns.once(trades.append_column("ticker", names.take(market.indices)), TRADES.key)
    renamed = {"price": "px", "size": "sz", "received": "event_ts"}
    made = [_as(kept[renamed.get(field.name, field.name)].combine_chunks(), field.type) for field in TRADES.schema]
    return pa.table(made, schema=TRADES.schema)


def _as_rows(kind: str, table: Table, found: pa.Table) -> pa.Table:
    """Rows of one of the lake's tables as Spark takes them, in the column that is theirs."""
    column = TRADE if table is TRADES else "ohlc"
    parts = [each.combine_chunks() for each in found.columns]
    own = pa.StructArray.from_arrays(parts, fields=list(SCHEMA.field(column).type))
    columns_of = {"kind": pa.repeat(kind, len(own)), column: own}
    return pa.table([columns_of.get(field.name, pa.nulls(len(own), field.type)) for field in SCHEMA], schema=SCHEMA)


def _as(column: Any, kind: pa.DataType) -> Any:
    """Times are in ms on the bus and in µs in the lake."""
    return pc.multiply(column, 1_000).cast(kind) if kind == TIME else column


def _book_row(book: Book) -> Row:
    return {
        "ticker": ticker(book.provider, book.coin),
        "ts": _time(book.ts),
        "bids": [{"price": price, "size": size} for price, size in book.bids],
        "asks": [{"price": price, "size": size} for price, size in book.asks],
        "depth": book.depth,
    }


def candle_of(row: Row) -> Candle:
    """A row of `ohlc` as a candle, without a place in its series."""
    provider, coin = parse_ticker(row["ticker"])
    prices = {"o": row["open"], "h": row["high"], "l": row["low"], "c": row["close"], "v": row["volume"]}
    return Candle(
        provider=provider,
        coin=coin,
        period=Period(row["period_s"]),
        start_ts=round(row["start"].timestamp() * 1_000),
        **prices,
        n=row["trades"],
        closed=row["closed"],
        rev=row["rev"],
        event_ts=0,
    )


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
