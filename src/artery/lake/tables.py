"""Every table of the lake, defined once: its columns, its key, how it is cut into files."""

import msgspec
import pyarrow as pa

NAMESPACE = "market"
STREAMS = ("trade", "book", "candle", "feed", "history", "symbol")
"""The streams of the bus that the lake keeps."""

TIME = pa.timestamp("us", tz="UTC")
EXACT = pa.decimal128(38, 18)
LEVELS = pa.list_(pa.field("element", pa.struct([pa.field("price", EXACT), pa.field("size", EXACT)])))

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    # Small groups of rows: a reader of one market skips the others' in a file that is in the order of markets.
    "write.parquet.row-group-size-bytes": str(4 * 1024 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.distribution-mode": "none",
    "commit.manifest.min-count-to-merge": "20",
    # A candle changes while its file is small and new: rewriting that file leaves readers one file and no deletes.
    "write.merge.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.delete.mode": "copy-on-write",
    # What was not there when a merge looked must not be there when it commits: its driver may have slept meanwhile.
    "write.merge.isolation-level": "serializable",
}
GUARDS = ("write.merge.isolation-level",)
"""What must hold of tables too that an older version has made; the rest is taste, and whoever changed it keeps it."""


class Table(msgspec.Struct, frozen=True):
    """One table; `partition` is (column, transform) pairs, `streams` what its commits vouch for, `time` the column by
    which its rows are looked for."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    partition: tuple[tuple[str, str], ...] = ()
    streams: tuple[str, ...] = ()
    time: str = ""

    @property
    def full_name(self) -> str:
        return f"{NAMESPACE}.{self.name}"


def _columns(required: dict[str, pa.DataType], optional: dict[str, pa.DataType] | None = None) -> pa.Schema:
    fields = [pa.field(name, kind, nullable=False) for name, kind in required.items()]
    return pa.schema(fields + [pa.field(name, kind) for name, kind in (optional or {}).items()])


OHLC = Table(
    "ohlc",
    _columns(
        {
            "ticker": pa.string(),
            "period_s": pa.int32(),
            "start": TIME,
            "open": EXACT,
            "high": EXACT,
            "low": EXACT,
            "close": EXACT,
            "volume": EXACT,
            "trades": pa.int64(),
            "closed": pa.bool_(),
            "rev": pa.int32(),
            "source": pa.string(),
            "updated": TIME,
        }
    ),
    key=("ticker", "period_s", "start"),
    partition=(("period_s", "identity"), ("start", "month")),
    streams=("candle", "history"),
    time="start",
)

TRADES = Table(
    "trades",
    _columns(
        {
            "ticker": pa.string(),
            "ts": TIME,
            "tid": pa.string(),
            "price": EXACT,
            "size": EXACT,
            "side": pa.string(),
            "provider": pa.string(),
            "epoch": pa.int64(),
            "seq": pa.int64(),
            "received": TIME,
        }
    ),
    key=("ticker", "ts", "tid"),
    partition=(("ts", "day"),),
    # Trades are the last table that a batch commits, so they vouch for every stream.
    streams=STREAMS,
    time="ts",
)

BOOKS = Table(
    "books",
    _columns({"ticker": pa.string(), "ts": TIME, "bids": LEVELS, "asks": LEVELS, "depth": pa.int32()}),
    key=("ticker", "ts"),
    partition=(("ts", "day"),),
    streams=("book",),
    time="ts",
)

GAPS = Table(
    "gaps",
    _columns(
        {"provider": pa.string(), "market": pa.string(), "from": TIME, "to": TIME, "cause": pa.string()},
        {"repaired_at": TIME, "repaired_from": pa.string()},
    ),
    key=("provider", "market", "from", "to"),
    streams=("feed",),
    time="from",
)

SYMBOLS = Table(
    "symbols",
    _columns(
        {
            "ticker": pa.string(),
            "version": pa.int64(),
            "provider": pa.string(),
            "market": pa.string(),
            "base": pa.string(),
            "quote": pa.string(),
            "tick_size": EXACT,
            "size_step": EXACT,
            "status": pa.string(),
            "valid_from": TIME,
        }
    ),
    key=("ticker", "version"),
    streams=("symbol",),
    time="valid_from",
)

REQUESTS = Table(
    "requests",
    _columns(
        {
            "request_id": pa.string(),
            "client_id": pa.string(),
            "ticker": pa.string(),
            "period_s": pa.int32(),
            "start": TIME,
            "end": TIME,
            "status": pa.string(),
            "rows": pa.int64(),
            "pages": pa.int32(),
            "finished": TIME,
        },
        {"snapshot_id": pa.int64(), "error": pa.string()},
    ),
    key=("request_id",),
    # Committed after the candles, so that pages are read again until their outcome is there too.
    streams=("history",),
    time="finished",
)

TABLES = {table.name: table for table in (OHLC, TRADES, BOOKS, GAPS, SYMBOLS, REQUESTS)}
