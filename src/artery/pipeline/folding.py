"""Trades of a batch as bars, folded together in columns; the same bars as the pure fold gives."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import compute

from artery.model.events import EXTERNAL
from artery.model.periods import DERIVED, Period
from artery.pipeline import columns
from artery.pipeline.bars import BAR, PLACE, PLACE_NAMES, REACH, SCHEMA, partial_of
from artery.pipeline.candles import Market, Partial, Seq
from artery.pipeline.columns import Trades
from artery.pipeline.decode import Raw

SIZE_MAX = Decimal(10) ** 17
"""A larger trade is stored but not folded: a thousand of them would no longer fit the sum's DECIMAL(38,18)."""
_AGGREGATES: Any = [("first", "min"), ("last", "max"), ("n", "sum"), ("high", "max"), ("low", "min")]
_AGGREGATES += [("sz", "sum"), ("at", "max")]
pc: Any = compute  # its stubs know neither decimals nor chunks


def trade_bars(entries: Iterable[Raw], periods: Iterable[Period] = DERIVED) -> pa.Table:
    """For the candle query: what these entries amount to in candles, and of each market how far they reach."""
    found = columns.trades_of(entries)
    trades = _own(found)
    return pa.concat_tables([_fold(trades, found.positions, periods), _reach(trades)])


def partials_after(entries: Iterable[Raw], periods: Iterable[Period], after: Mapping[Market, Seq]) -> list[Partial]:
    """What these entries amount to in candles, without the trades up to a place of some markets."""
    found = columns.trades_of(entries)
    trades = _own(found)
    places = zip(*(trades[name].to_pylist() for name in ("provider", "coin", "epoch", "seq")), strict=True)
    new = [(epoch, seq) > after.get((provider, coin), (0, 0)) for provider, coin, epoch, seq in places]
    kept = trades.filter(pa.array(new, pa.bool_()))
    return [partial_of(row) for row in _fold(kept, found.positions, periods).to_pylist()]


def _own(found: Trades) -> pa.Table:
    """Each trade once, but for foreign ones, for which no clock vouches, and absurd ones."""
    trades = columns.once(found.table, ("provider", "coin", "ts", "tid"))
    own = pc.and_(pc.not_equal(trades["provider"], EXTERNAL), pc.greater(trades["epoch"], 0))
    return trades.filter(pc.and_(own, pc.less(trades["sz"], SIZE_MAX)))


def _fold(trades: pa.Table, positions: list[str], periods: Iterable[Period]) -> pa.Table:
    """Parts of candles of every period: trades are folded once, into short bars, and those into each length."""
    ordered = trades.sort_by([(name, "ascending") for name in PLACE_NAMES])
    rows = pa.array(range(ordered.num_rows), pa.int64())
    one = pa.array([1] * ordered.num_rows, pa.int64())
    marked: dict[str, Any] = {"first": rows, "last": rows, "n": one, "high": ordered["px"], "low": ordered["px"]}
    names = ("provider", "coin", "sz", "at")
    singles = pa.table(marked | {name: ordered[name] for name in names} | {"start_ms": ordered["ts"]})
    lengths = [period.ms for period in periods]
    short = _grouped(singles, math.gcd(*lengths))
    return pa.concat_tables([_bars(_grouped(short, length), length // 1_000, ordered, positions) for length in lengths])


def _grouped(bars: pa.Table, length_ms: int) -> pa.Table:
    start = pc.multiply(pc.divide(bars["start_ms"], length_ms), length_ms)
    placed = bars.set_column(bars.column_names.index("start_ms"), "start_ms", start)
    groups = placed.group_by(["provider", "coin", "start_ms"], use_threads=False).aggregate(_AGGREGATES)
    return groups.rename_columns({f"{name}_{how}": name for name, how in _AGGREGATES})


def _bars(groups: pa.Table, period_s: int, ordered: pa.Table, positions: list[str]) -> pa.Table:
    first, last = (ordered.take(groups[name]) for name in ("first", "last"))
    newest: Any = groups["at"].to_pylist()
    up_to = [positions[at] for at in newest]
    prices = {"o": first["px"], "h": groups["high"], "l": groups["low"], "c": last["px"], "v": groups["sz"]}
    whole = {name: groups[name] for name in ("provider", "coin", "start_ms", "n")} | prices
    places = {"first": _places(first), "last": _places(last), "up_to": up_to}
    return _table(BAR, groups.num_rows, whole | places | {"period_s": [period_s] * groups.num_rows})


def _reach(trades: pa.Table) -> pa.Table:
    ordered = trades.sort_by([("epoch", "ascending"), ("seq", "ascending")])
    rows = ordered.append_column("row", pa.array(range(ordered.num_rows), pa.int64()))
    groups = rows.group_by(["provider", "coin"], use_threads=False).aggregate([("row", "min"), ("row", "max")])
    first, last = (_places(ordered.take(groups[name])) for name in ("row_min", "row_max"))
    names = {name: groups[name] for name in ("provider", "coin")}
    zeros = [0] * groups.num_rows
    return _table(REACH, groups.num_rows, names | {"first": first, "last": last, "period_s": zeros, "start_ms": zeros})


def _table(kind: str, count: int, made: Mapping[str, Any]) -> pa.Table:
    given = {"kind": [kind] * count} | dict(made)
    cells = [given.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA]
    return pa.table(
        [
            pa.array(cell, field.type) if isinstance(cell, list) else cell
            for cell, field in zip(cells, SCHEMA, strict=True)
        ],
        schema=SCHEMA,
    )


def _places(trades: pa.Table) -> Any:
    return pa.StructArray.from_arrays([trades[name].combine_chunks() for name in PLACE_NAMES], fields=list(PLACE))
