"""What the candle query's source hands to Spark: trades as one-second bars, clocks, a venue's closed candles.

An entry that cannot be decoded is passed over here; the store query puts it with the dead letters.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from artery.bus.base import place
from artery.errors import BadEvent
from artery.lake.tables import EXACT
from artery.model.events import EXTERNAL, Candle, Clock, Mark, Trade
from artery.model.fold import Bar, Place, bar, join
from artery.model.periods import DERIVED, Period
from artery.pipeline import decode
from artery.pipeline.candles import KEEP_MS, Batch, Partial
from artery.pipeline.decode import Raw
from artery.pipeline.minutes import DAY_MS, Span

BAR, CLOCK, MARK, VENUE, END = "bar", "clock", "mark", "venue", "end"
_PLACE = pa.struct([pa.field(name, pa.int64()) for name in ("ts", "epoch", "seq")])
_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "provider": pa.string(),
    "coin": pa.string(),
    "period_s": pa.int32(),
    "start_ms": pa.int64(),
    "first": _PLACE,
    "last": _PLACE,
    "o": EXACT,
    "h": EXACT,
    "l": EXACT,
    "c": EXACT,
    "v": EXACT,
    "n": pa.int64(),
    "up_to": pa.string(),
    "at": pa.list_(pa.int64()),
}
SCHEMA = pa.schema(_COLUMNS)
"""A CLOCK's time is in `last`, as is a MARK's end; `period_s` is set on a venue's candles only; `at` is `up_to` as
numbers that compare. The one row of kind `end` has in `up_to` how far the batch reaches, as Spark does not tell."""

SIZE_MAX = Decimal(10) ** 17
"""A larger trade is stored but not folded: a thousand of them would no longer fit the sum's DECIMAL(38,18)."""
_SECOND_MS = 1_000
Row = dict[str, Any]


def trade_rows(entries: Iterable[Raw]) -> list[Row]:
    """Trades as bars of a second, each trade once; a foreign one is not folded, as no clock vouches for it."""
    seconds: dict[tuple[str, str, int], tuple[Bar, str]] = {}
    names: set[tuple[str, str, int, str]] = set()
    for position, trade in _of(entries, Trade):
        name = (trade.provider, trade.coin, trade.ts, trade.tid)
        if trade.provider == EXTERNAL or not trade.epoch or trade.sz >= SIZE_MAX or name in names:
            continue
        names.add(name)
        key = (trade.provider, trade.coin, trade.ts // _SECOND_MS)
        old = seconds.get(key)
        seconds[key] = (bar(trade) if old is None else join(old[0], bar(trade)), position)
    return [_bar_row(key, *second) for key, second in seconds.items()]


def feed_rows(entries: Iterable[Raw]) -> list[Row]:
    """The newest CLOCK of each provider, and what each MARK does not vouch for."""
    clocks: dict[str, int] = {}
    rows: list[Row] = []
    for _, event in _of(entries, Clock | Mark):
        if isinstance(event, Clock):
            clocks[event.provider] = max(event.ts, clocks.get(event.provider, 0))
        else:
            rows.append(_feed_row(MARK, event.provider, event.coin, event.from_ms, event.to_ms))
    return rows + [_feed_row(CLOCK, provider, "", 0, ts) for provider, ts in clocks.items()]


def history_rows(entries: Iterable[Raw]) -> list[Row]:
    """A venue's closed candles; of two for the same window the later one. What is long over, or of
    a period that we do not make, is for the lake alone."""
    newest: dict[tuple[str, str, int, int], Row] = {}
    for raw in entries:
        try:
            page = decode.page(raw)
            newest |= {candle.key: _venue_row(candle, raw[0]) for candle in page if _concerns_live(candle)}
        except BadEvent:
            continue
    return list(newest.values())


def _concerns_live(candle: Candle) -> bool:
    """Whether this one can correct a candle that is open or closed not long ago."""
    over_ms = candle.end_ts + max(KEEP_MS, 2 * candle.period.ms) + DAY_MS
    return candle.period in DERIVED and over_ms > candle.event_ts


def record_batch(rows: list[Row], end: dict[str, str]) -> pa.RecordBatch:
    """Rows as Spark takes them, and how far they reach."""
    reached = {"kind": END, "provider": "", "coin": "", "period_s": 0, "start_ms": 0}
    reached |= {"up_to": msgspec.json.encode(end).decode(), "at": [0]}
    return pa.RecordBatch.from_pylist([*rows, reached], schema=SCHEMA)


def batch_of(table: pa.Table) -> tuple[Batch, dict[str, str]]:
    """What Spark made of them, for the candle book; and how far it reaches."""
    partials: list[Partial] = []
    clocks: dict[str, int] = {}
    venue: list[Candle] = []
    unwatched: list[Span] = []
    end: dict[str, str] = {}
    for row in table.to_pylist():
        match row["kind"]:
            case "bar":
                key = (row["provider"], row["coin"], row["period_s"], row["start_ms"])
                partials.append(Partial(key, _bar(row), row["up_to"]))
            case "clock":
                clocks[row["provider"]] = row["last"]["ts"]
            case "mark":
                unwatched.append(Span(row["provider"], row["coin"], row["start_ms"], row["last"]["ts"]))
            case "venue":
                venue.append(_venue_candle(row))
            case "end":
                end = msgspec.json.decode(row["up_to"], type=dict[str, str])
    return Batch(partials, clocks, venue, unwatched), end


def _feed_row(kind: str, provider: str, coin: str, start_ms: int, end_ms: int) -> Row:
    head = {"kind": kind, "provider": provider, "coin": coin, "period_s": 0, "start_ms": start_ms}
    return head | {"last": _place((end_ms, 0, 0))}


def _of(entries: Iterable[Raw], kind: Any) -> Iterator[tuple[str, Any]]:
    for raw in entries:
        try:
            event = decode.event(raw)
        except BadEvent:
            continue
        if isinstance(event, kind):
            yield raw[0], event


def _bar_row(key: tuple[str, str, int], bar: Bar, up_to: str) -> Row:
    provider, coin, at_s = key
    head = {"kind": BAR, "provider": provider, "coin": coin, "start_ms": at_s * _SECOND_MS}
    return head | _values(bar, up_to)


def _venue_row(candle: Candle, position: str) -> Row:
    head = {"kind": VENUE, "provider": candle.provider, "coin": candle.coin}
    start = (candle.start_ts, 0, 0)
    whole = Bar(start, start, candle.o, candle.h, candle.l, candle.c, candle.v, candle.n)
    return head | {"period_s": candle.period.seconds, "start_ms": candle.start_ts} | _values(whole, position)


def _values(bar: Bar, up_to: str) -> Row:
    prices = {"o": bar.o, "h": bar.h, "l": bar.l, "c": bar.c, "v": bar.v}
    return {
        "first": _place(bar.first),
        "last": _place(bar.last),
        **prices,
        "n": bar.n,
        "up_to": up_to,
        "at": list(place(up_to)),
    }


def _place(of: Place) -> dict[str, int]:
    return dict(zip(("ts", "epoch", "seq"), of, strict=True))


def _bar(row: Row) -> Bar:
    first, last = ((row[name]["ts"], row[name]["epoch"], row[name]["seq"]) for name in ("first", "last"))
    return Bar(first, last, row["o"], row["h"], row["l"], row["c"], row["v"], row["n"])


def _venue_candle(row: Row) -> Candle:
    prices = {name: row[name] for name in "ohlcv"}
    return Candle(
        provider=row["provider"],
        coin=row["coin"],
        period=Period(row["period_s"]),
        start_ts=row["start_ms"],
        **prices,
        n=row["n"],
        closed=True,
        event_ts=0,
    )
