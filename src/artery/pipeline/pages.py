"""Entries of `history` as columns of `ohlc`, a page at a time.

A year of minutes comes at once, and someone waits for it. Pages as we write them are decoded as a whole, about ten
times as fast as row by row; one that differs in any way is decoded strictly: the result is the same.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.errors import BadEvent, BadInput
from artery.lake.tables import EXACT, OHLC
from artery.model.codec import LATEST_MS
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.tickers import parse_ticker, ticker
from artery.pipeline import columns, decode
from artery.pipeline.decode import Raw
from artery.pipeline.repairs import Repair, repair_of
from artery.wire.artery_pb2 import OHLCBatch

pc: Any = compute  # its stubs know neither decimals nor chunks

SOURCE = "history"
_PRICES = ("open", "high", "low", "close")
_READ = attrgetter("start_ms", *_PRICES, "volume", "trades", "closed")


class Pages(msgspec.Struct, frozen=True):
    """The candles of some pages as rows of `ohlc`, of two of the same key the later one; the last pages of clients'
    requests; which entries are bad; and which holes were asked for that end in them."""

    table: pa.Table
    closing: list[OHLCBatch]
    bad: list[tuple[Raw, BadEvent]]
    repairs: list[Repair] = []


def pages_of(entries: Iterable[Raw]) -> Pages:
    """Everything in these entries of `history`."""
    tables: list[pa.Table] = []
    closing: list[OHLCBatch] = []
    bad: list[tuple[Raw, BadEvent]] = []
    repairs: list[Repair] = []
    for raw in entries:
        try:
            page, event_ts = decode.page(raw)
            tables.append(_candles(page, event_ts))
            if decode.closes(page):
                closing.append(page)
            if (repair := repair_of(page, event_ts)) is not None:
                repairs.append(repair)
        except BadEvent as error:
            bad.append((raw, error))
    found = pa.concat_tables([OHLC.schema.empty_table(), *tables])
    placed = found.append_column("at", pa.array(range(found.num_rows), pa.int64()))
    return Pages(columns.once(placed, OHLC.key, "max").drop_columns("at"), closing, bad, repairs)


def _candles(page: OHLCBatch, event_ts: int) -> pa.Table:
    if not page.rows:
        return OHLC.schema.empty_table()
    try:
        plain = _plain(page, event_ts)
    except (BadInput, ValueError, pa.ArrowException):
        plain = None
    return _strict(page, event_ts) if plain is None else plain


def _plain(page: OHLCBatch, event_ts: int) -> pa.Table | None:
    """The page's candles, if every row is exactly as we write it."""
    if page.period_s <= 0:
        return None
    name, period = ticker(*parse_ticker(page.ticker)), Period(page.period_s)
    starts, *texts, trades, closed = zip(*map(_READ, page.rows), strict=True)
    start: Any = pa.array(starts, pa.int64())
    exact = dict(zip((*_PRICES, "volume"), map(_exact, texts), strict=True))
    if any(value is None for value in exact.values()) or not _sound(start, exact, period):
        return None
    made = {
        **exact,
        "ticker": _same(name, len(start)),
        "period_s": _same(page.period_s, len(start)),
        "start": pc.multiply(start, 1_000),
        "trades": pa.array(trades),
        "closed": pa.array(closed),
        "rev": _same(0, len(start)),
        "source": _same(SOURCE, len(start)),
        "updated": _same(event_ts * 1_000, len(start)),
    }
    table = pa.table([pc.cast(made[field.name], field.type) for field in OHLC.schema], schema=OHLC.schema)
    return table.filter(pc.and_(table["closed"], pc.greater(table["volume"], 0)))


def _exact(texts: Sequence[str]) -> Any:
    text: Any = pa.array(texts, pa.string())
    whole = pc.all(pc.match_substring_regex(text, columns.DECIMAL)).as_py()
    return pc.cast(text, EXACT) if whole else None


def _sound(start: Any, exact: dict[str, Any], period: Period) -> bool:
    """What `decode.candles` asks of every candle."""
    body = [exact["open"], exact["close"]]
    low, high = pc.min_element_wise(*body), pc.max_element_wise(*body)
    return (
        pc.min(start).as_py() >= 0
        and pc.max(start).as_py() <= LATEST_MS
        and all(at % period.ms == 0 for at in start.to_pylist())
        and pc.min(exact["low"]).as_py() > 0
        and bool(pc.all(pc.less_equal(exact["low"], low)).as_py())
        and bool(pc.all(pc.greater_equal(exact["high"], high)).as_py())
    )


def _same(value: str | int, count: int) -> Any:
    return pa.repeat(value, count)


def _strict(page: OHLCBatch, event_ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [row_of(candle, SOURCE) for candle in decode.candles(page, event_ts)], schema=OHLC.schema
    )


def row_of(candle: Candle, source: str) -> dict[str, Any]:
    """A candle as a row of `ohlc`."""
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


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)
