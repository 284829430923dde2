"""Trades of a batch as bars, folded together in columns; the same bars as the pure fold gives."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import compute

from artery.bus.base import place
from artery.model.events import EXTERNAL
from artery.model.periods import Period
from artery.pipeline import columns
from artery.pipeline.bars import BAR, PLACE, PLACE_NAMES, REACH, SCHEMA, partial_of
from artery.pipeline.candles import Market, Partial, Seq
from artery.pipeline.columns import Trades
from artery.pipeline.decode import Raw

SIZE_MAX = Decimal(10) ** 17
"""A larger trade is stored but not folded: a thousand of them would no longer fit the sum's DECIMAL(38,18)."""
_AGGREGATES: Any = [("row", "min"), ("row", "max"), ("row", "count")]
_AGGREGATES += [("px", "max"), ("px", "min"), ("sz", "sum"), ("at", "max")]
pc: Any = compute  # its stubs know neither decimals nor chunks


def trade_bars(entries: Iterable[Raw], unit_s: int = 1) -> pa.Table:
    """For the candle query: bars of `unit_s`, and of each market how far they reach in its series."""
    found = columns.trades_of(entries)
    trades = _own(found)
    return pa.concat_tables([_fold(trades, found.positions, unit_s), _reach(trades)])


def partials_after(entries: Iterable[Raw], periods: Iterable[Period], after: Mapping[Market, Seq]) -> list[Partial]:
    """What these entries amount to in candles, without the trades up to a place of some markets."""
    found = columns.trades_of(entries)
    trades = _own(found)
    places = zip(*(trades[name].to_pylist() for name in ("provider", "coin", "epoch", "seq")), strict=True)
    new = [(epoch, seq) > after.get((provider, coin), (0, 0)) for provider, coin, epoch, seq in places]
    kept = trades.filter(pa.array(new, pa.bool_()))
    folded = ((period.seconds, _fold(kept, found.positions, period.seconds)) for period in periods)
    return [partial_of(row, seconds) for seconds, bars in folded for row in bars.to_pylist()]


def _own(found: Trades) -> pa.Table:
    """Each trade once, but for foreign ones, for which no clock vouches, and absurd ones."""
    trades = columns.once(found.table, ("provider", "coin", "ts", "tid"))
    own = pc.and_(pc.not_equal(trades["provider"], EXTERNAL), pc.greater(trades["epoch"], 0))
    return trades.filter(pc.and_(own, pc.less(trades["sz"], SIZE_MAX)))


def _fold(trades: pa.Table, positions: list[str], unit_s: int) -> pa.Table:
    ordered = trades.sort_by([(name, "ascending") for name in PLACE_NAMES])
    unit_ms = unit_s * 1_000
    start = pc.multiply(pc.divide(ordered["ts"], unit_ms), unit_ms)
    row = pa.array(range(ordered.num_rows), pa.int64())
    grouped = ordered.append_column("start_ms", start).append_column("row", row)
    groups = grouped.group_by(["provider", "coin", "start_ms"], use_threads=False).aggregate(_AGGREGATES)
    first, last = (ordered.take(groups[name]) for name in ("row_min", "row_max"))
    newest: list[Any] = groups["at_max"].to_pylist()
    up_to = [positions[at] for at in newest]
    prices = {"o": first["px"], "h": groups["px_max"], "l": groups["px_min"], "c": last["px"]}
    whole = {name: groups[name] for name in ("provider", "coin", "start_ms")} | prices
    places = {"first": _places(first), "last": _places(last), "up_to": up_to, "at": [place(at) for at in up_to]}
    return _table(BAR, groups.num_rows, whole | places | {"v": groups["sz_sum"], "n": groups["row_count"]})


def _reach(trades: pa.Table) -> pa.Table:
    ordered = trades.sort_by([("epoch", "ascending"), ("seq", "ascending")])
    rows = ordered.append_column("row", pa.array(range(ordered.num_rows), pa.int64()))
    groups = rows.group_by(["provider", "coin"], use_threads=False).aggregate([("row", "min"), ("row", "max")])
    first, last = (_places(ordered.take(groups[name])) for name in ("row_min", "row_max"))
    names = {name: groups[name] for name in ("provider", "coin")}
    zeros = [0] * groups.num_rows
    places = {"first": first, "last": last, "at": [[0]] * groups.num_rows}
    return _table(REACH, groups.num_rows, names | places | {"period_s": zeros, "start_ms": zeros})


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
