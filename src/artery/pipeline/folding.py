"""Trades of a batch as bars, folded together in columns; the same bars as the pure fold gives."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import compute

from artery.model.events import EXTERNAL
from artery.model.fold import AHEAD_MAX_MS, SIZE_MAX
from artery.model.periods import DERIVED, Period
from artery.model.taken import Run, Standing, Taken, runs_of
from artery.pipeline import columns
from artery.pipeline.bars import BAR, PLACE, PLACE_NAMES, REACH, SCHEMA, partial_of
from artery.pipeline.columns import Trades
from artery.pipeline.decode import Raw
from artery.pipeline.parts import Partial

_SERIES = ("provider", "coin", "epoch")
_AGGREGATES: Any = [("first", "min"), ("last", "max"), ("n", "sum"), ("high", "max"), ("low", "min")]
_AGGREGATES += [("sz", "sum"), ("at", "max")]
pc: Any = compute  # its stubs know neither decimals nor chunks


class Sifted(msgspec.Struct, frozen=True):
    """Parts of candles: of trades that are new, and of those that may have been taken before; how many surely were."""

    new: list[Partial]
    doubtful: list[Partial]
    repeats: int


def trade_bars(entries: Iterable[Raw], periods: Iterable[Period] = DERIVED) -> pa.Table:
    """For the candle query: what these entries amount to in candles, and which places of each market they hold."""
    found = columns.trades_of(entries)
    own = _own(found)
    return pa.concat_tables([_fold(_counting(own), found.positions, periods), _reach(own)])


def sifted(entries: Iterable[Raw], periods: Iterable[Period], taken: Taken) -> Sifted:
    """What these entries amount to in candles, without trades that were taken before."""
    found = columns.trades_of(entries)
    trades = _counting(_own(found))
    places = zip(*(trades[name].to_pylist() for name in ("provider", "coin", "epoch", "seq")), strict=True)
    standings = [taken.standing((provider, coin), (epoch, seq)) for provider, coin, epoch, seq in places]

    def folded(which: Standing) -> list[Partial]:
        kept = trades.filter(pa.array([one is which for one in standings], pa.bool_()))
        return [partial_of(row) for row in _fold(kept, found.positions, periods).to_pylist()]

    return Sifted(folded(Standing.NEW), folded(Standing.DOUBTFUL), standings.count(Standing.REPEAT))


def _own(found: Trades) -> pa.Table:
    """Each trade once, but for foreign ones, for which no clock vouches."""
    trades = columns.once(found.table, ("provider", "coin", "ts", "tid"))
    return trades.filter(pc.and_(pc.not_equal(trades["provider"], EXTERNAL), pc.greater(trades["epoch"], 0)))


def _counting(trades: pa.Table) -> pa.Table:
    """Without absurd ones, as `fold.counts` has it."""
    ahead_ms = pc.subtract(trades["ts"], trades["event_ts"])
    return trades.filter(pc.and_(pc.less(trades["sz"], SIZE_MAX), pc.less_equal(ahead_ms, AHEAD_MAX_MS)))


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
    """The runs of places of each market: nearly always one, so that only of others every place is looked at."""
    groups = trades.group_by([*_SERIES], use_threads=False).aggregate(
        [("seq", "min"), ("seq", "max"), ("seq", "count_distinct")]
    )
    names = (*_SERIES, "seq_min", "seq_max", "seq_count_distinct")
    found = list(zip(*(groups[name].to_pylist() for name in names), strict=True))
    torn = {row[:3] for row in found if row[4] - row[3] + 1 != row[5]}
    rows = [(*row[:2], Run((row[2], row[3]), (row[2], row[4])), row[5]) for row in found if row[:3] not in torn]
    for (provider, coin, epoch), seqs in (_seqs(trades, torn) if torn else {}).items():
        for run in runs_of(epoch, seqs):
            rows.append((provider, coin, run, run.last[1] - run.first[1] + 1 if run.whole else 0))
    made = {name: [row[at] for row in rows] for at, name in ((0, "provider"), (1, "coin"), (3, "n"))}
    ends = {"first": [_end(row[2].first) for row in rows], "last": [_end(row[2].last) for row in rows]}
    zeros = [0] * len(rows)
    return _table(REACH, len(rows), made | ends | {"period_s": zeros, "start_ms": zeros})


def _seqs(trades: pa.Table, of: set[tuple[str, str, int]]) -> Mapping[tuple[str, str, int], set[int]]:
    found: dict[tuple[str, str, int], set[int]] = {series: set() for series in of}
    for *series, seq in zip(*(trades[name].to_pylist() for name in (*_SERIES, "seq")), strict=True):
        if (known := found.get(tuple(series))) is not None:
            known.add(seq)
    return found


def _end(place: tuple[int, int]) -> dict[str, int]:
    return {"ts": 0, "epoch": place[0], "seq": place[1]}


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
