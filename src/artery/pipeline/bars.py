"""What the candle query's source hands to Spark: trades as bars of every period, clocks, a venue's closed candles.

An entry that cannot be decoded is passed over here; the store query puts it with the dead letters.
"""

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.errors import BadEvent
from artery.lake.tables import EXACT
from artery.model.events import Candle, Clock, Mark
from artery.model.fold import Bar, Place
from artery.model.periods import DERIVED, Period
from artery.model.taken import Market, Run
from artery.pipeline import decode
from artery.pipeline.candles import KEEP_MS
from artery.pipeline.decode import Raw
from artery.pipeline.minutes import DAY_MS, Span
from artery.pipeline.parts import Batch, Partial

pc: Any = compute  # its stubs do not know structs
BAR, CLOCK, MARK, VENUE, REACH, END = "bar", "clock", "mark", "venue", "reach", "end"
PLACE_NAMES = ("ts", "epoch", "seq")
PLACE = pa.struct([pa.field(name, pa.int64()) for name in PLACE_NAMES])
_COLUMNS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "provider": pa.string(),
    "coin": pa.string(),
    "period_s": pa.int32(),
    "start_ms": pa.int64(),
    "first": PLACE,
    "last": PLACE,
    "o": EXACT,
    "h": EXACT,
    "l": EXACT,
    "c": EXACT,
    "v": EXACT,
    "n": pa.int64(),
    "up_to": pa.string(),
}
SCHEMA = pa.schema(_COLUMNS)
"""A CLOCK's time is in `last`, as is a MARK's end; a row of kind `reach` is a run of places in the market's series from
`first` to `last`, of which the batch holds `n`. The one row of kind `end` has in `up_to` how far the batch reaches, as
Spark does not tell."""

Row = dict[str, Any]


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


def history_rows(entries: Iterable[Raw], periods: Collection[Period] = DERIVED) -> list[Row]:
    """A venue's closed candles; of two for the same window the later one. What is long over, or of
    a period that we do not make, is for the lake alone."""
    newest: dict[tuple[str, str, int, int], Row] = {}
    for raw in entries:
        try:
            page, event_ts = decode.page(raw)
            if _concerns_live(page.period_s, max((row.start_ms for row in page.rows), default=0), event_ts, periods):
                found = decode.candles(page, event_ts)
                newest |= {candle.key: _venue_row(candle, raw[0]) for candle in found if _is_live(candle, periods)}
        except BadEvent:
            continue
    return list(newest.values())


def _is_live(candle: Candle, periods: Collection[Period]) -> bool:
    return _concerns_live(candle.period.seconds, candle.start_ts, candle.event_ts, periods)


def _concerns_live(period_s: int, start_ms: int, event_ts: int, periods: Collection[Period]) -> bool:
    """Whether a candle that starts then can correct one that is open or closed not long ago."""
    period = Period(period_s)
    over_ms = start_ms + period.ms + max(KEEP_MS, 2 * period.ms) + DAY_MS
    return period in periods and over_ms > event_ts


def record_batch(rows: list[Row], end: dict[str, str], bars: pa.Table | None = None) -> pa.RecordBatch:
    """Bars and other rows as Spark takes them, and how far they reach."""
    reached = {"kind": END, "provider": "", "coin": "", "period_s": 0, "start_ms": 0}
    reached |= {"up_to": msgspec.json.encode(end).decode()}
    rest = pa.Table.from_pylist([*rows, reached], schema=SCHEMA)
    whole = rest if bars is None else pa.concat_tables([bars, rest])
    return whole.combine_chunks().to_batches()[0]


def batch_of(table: pa.Table) -> tuple[Batch, dict[str, str]]:
    """What Spark made of them, for the candle book; and how far it reaches."""
    clocks: dict[str, int] = {}
    venue: list[Candle] = []
    unwatched: list[Span] = []
    end: dict[str, str] = {}
    many = pc.is_in(table["kind"], pa.array([BAR, REACH]))
    for row in table.filter(pc.invert(many)).to_pylist():
        match row["kind"]:
            case "clock":
                clocks[row["provider"]] = row["last"]["ts"]
            case "mark":
                unwatched.append(Span(row["provider"], row["coin"], row["start_ms"], row["last"]["ts"]))
            case "venue":
                venue.append(_venue_candle(row))
            case "end":
                end = msgspec.json.decode(row["up_to"], type=dict[str, str])
    bars, reach = (table.filter(pc.equal(table["kind"], kind)) for kind in (BAR, REACH))
    return Batch(_partials(bars), clocks, venue, unwatched, _reaches(reach)), end


def _partials(bars: Any) -> list[Partial]:
    """Bars as parts of candles, column by column: of many markets there are thousands in a batch."""
    keys = zip(*(bars[name].to_pylist() for name in ("provider", "coin", "period_s", "start_ms")), strict=True)
    prices = (map(Decimal, pc.cast(bars[name], pa.string()).to_pylist()) for name in "ohlcv")  # as text: faster
    made = map(Bar, _places(bars["first"]), _places(bars["last"]), *prices, bars["n"].to_pylist())
    return list(map(Partial, keys, made, bars["up_to"].to_pylist()))


def _reaches(reach: Any) -> dict[Market, list[Run]]:
    columns = [reach[name].to_pylist() for name in ("provider", "coin", "n")]
    ends = [[at[1:] for at in _places(reach[name])] for name in ("first", "last")]
    found: dict[Market, list[Run]] = {}
    for provider, coin, count, first, last in zip(*columns, *ends, strict=True):
        whole = first[0] == last[0] and count == last[1] - first[1] + 1
        found.setdefault((provider, coin), []).append(Run(first, last, whole))
    for runs in found.values():
        runs.sort(key=lambda run: run.first)
    return found


def _places(column: Any) -> list[Place]:
    whole = column.combine_chunks()
    return list(zip(*(pc.struct_field(whole, name).to_pylist() for name in PLACE_NAMES), strict=True))


def partial_of(row: Row) -> Partial:
    """A bar as a part of one candle."""
    return Partial((row["provider"], row["coin"], row["period_s"], row["start_ms"]), _bar(row), row["up_to"])


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
    }


def _place(of: Place) -> dict[str, int]:
    return dict(zip(PLACE_NAMES, of, strict=True))


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
