"""`/v1/history`: the lake's rows joined with what the bus has after them, page by page."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from artery.bus.base import Bus, Entry, place
from artery.errors import BadEvent, PositionLost
from artery.gateway import rows
from artery.gateway.cells import ints
from artery.gateway.listings import SymbolReads
from artery.gateway.past import PastLake
from artery.gateway.recent import Recent
from artery.gateway.rows import CandleRow, TradeRow
from artery.gateway.span import Span
from artery.model import codec
from artery.model.events import Trade
from artery.model.periods import Period
from artery.model.tickers import ticker

_LAKE_ROWS = 100_000
_PIECE_ROWS = 10_000
"""About so many rows of the lake are read at once on the way to a page's last."""
_LAKE_AT_ONCE = 4
_SCAN_MAX = 500_000
_SCAN_PAGE = 2_000
_HALVINGS = 24
_LATE_MS = 60_000

T = TypeVar("T")


class LakeReads(PastLake, SymbolReads, Protocol):
    """What the gateway reads of the lake; synchronous and thread-safe, the newest `limit` rows, oldest first."""

    def candles(self, ticker: str, period_s: int, start_ms: int, end_ms: int, limit: int) -> pa.Table: ...

    def trades(self, ticker: str, start_ms: int, end_ms: int, limit: int) -> pa.Table: ...

    def trade_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]: ...


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Rows, oldest first, and the cursor of the page that follows."""

    rows: list[T]
    next: str | None = None


class History:
    """Candles and trades of any age that the lake or the bus holds; pages are read and made in threads."""

    def __init__(self, recent: Recent, lake: LakeReads, bus: Bus) -> None:
        self.recent = recent
        self._lake = lake
        self._bus = bus
        self._turns = asyncio.Semaphore(_LAKE_AT_ONCE)

    async def candles(self, provider: str, coin: str, period: Period, span: Span) -> Page[CandleRow]:
        """One page of candles."""
        # The memory is read first: what the lake takes up meanwhile is then in both, never in neither.
        newer = self.recent.rows(provider, coin, period.seconds, span)
        return await self._read(lambda: _candle_page(self._lake, ticker(provider, coin), period, span, newer))

    async def trades(self, provider: str, coin: str, span: Span) -> Page[TradeRow]:
        """One page of trades; those of one millisecond are never parted, so a page may be a little short."""
        newer = await self._bus_trades(provider, coin, span)
        return await self._read(lambda: _trade_page(self._lake, ticker(provider, coin), span, newer))

    async def _bus_trades(self, provider: str, coin: str, span: Span) -> list[TradeRow]:
        """What the bus has after the lake's commit."""
        committed = (await self._read(self._lake.positions)).get("trade", "0")
        if span.forward:
            return await self._bus_forward(provider, coin, span, committed)
        return await self._bus_back(provider, coin, span, place(committed))

    async def _bus_forward(self, provider: str, coin: str, span: Span, committed: str) -> list[TradeRow]:
        near = await self._bus.find("trade", max(0, span.start_ms - _LATE_MS))
        after = max(committed, near, key=place)
        found: list[TradeRow] = []
        for _ in range(_SCAN_MAX // _SCAN_PAGE):
            try:
                entries = await self._bus.read("trade", after, _SCAN_PAGE)
            except PositionLost as lost:
                entries = await self._bus.read("trade", lost.first, _SCAN_PAGE)
            found += await asyncio.to_thread(_trades_of, entries, provider, coin, span)
            if len(entries) < _SCAN_PAGE or _is_enough(found, span):
                break
            after = entries[-1].id
        return found

    async def _bus_back(self, provider: str, coin: str, span: Span, committed: tuple[int, ...]) -> list[TradeRow]:
        found: list[TradeRow] = []
        before = ""
        for _ in range(_SCAN_MAX // _SCAN_PAGE):
            entries = await self._bus.read_back("trade", _SCAN_PAGE, before)
            found += await asyncio.to_thread(_trades_of, entries, provider, coin, span)
            if len(entries) < _SCAN_PAGE or place(entries[-1].id) <= committed or _is_enough(found, span):
                break
            before = entries[-1].id
        return found

    async def _read(self, work: Callable[[], T]) -> T:
        async with self._turns:
            return await asyncio.to_thread(work)


def _candle_page(lake: LakeReads, name: str, period: Period, span: Span, newer: Sequence[CandleRow]) -> Page[CandleRow]:
    found = span.cut(rows.joined(rows.lake_candles(_lake_candles(lake, name, period, span)), newer))
    if len(found) < span.limit:
        return Page(found)
    edge = f"s{found[-1].start + period.ms}" if span.forward else f"e{found[0].start}"
    return Page(found, edge)


def _trade_page(lake: LakeReads, name: str, span: Span, newer: Sequence[TradeRow]) -> Page[TradeRow]:
    older = rows.lake_trades(lake_oldest(lake, name, span) if span.forward else _lake_newest(lake, name, span))
    known = {(row.ts, row.tid) for row in older}
    merged = sorted(older + [row for row in newer if (row.ts, row.tid) not in known], key=_trade_order)
    return Page(merged) if len(merged) <= span.limit else _whole_ms(merged, span)


def _lake_candles(lake: LakeReads, name: str, period: Period, span: Span) -> pa.Table:
    """The lake's share of a page. Forward: first as long a stretch as a market without pauses needs."""
    if not span.forward:
        return lake.candles(name, period.seconds, span.start_ms, span.end_ms, span.limit)
    near_ms = min(span.end_ms, span.start_ms + span.limit * period.ms)
    table = lake.candles(name, period.seconds, span.start_ms, near_ms, span.limit)
    start_ms = near_ms
    while table.num_rows < span.limit and start_ms < span.end_ms:
        end_ms = min(span.end_ms, start_ms + _LAKE_ROWS * period.ms)
        rest = lake.candles(name, period.seconds, start_ms, span.end_ms, _LAKE_ROWS)
        if rest.num_rows == _LAKE_ROWS:
            rest = lake.candles(name, period.seconds, start_ms, end_ms, _LAKE_ROWS)
        else:
            end_ms = span.end_ms
        table = pa.concat_tables([table, rest])
        start_ms = end_ms
    return table.slice(0, span.limit)


def _lake_newest(lake: LakeReads, name: str, span: Span) -> pa.Table:
    """The newest trades of a stretch, one more than a page has; of a millisecond that has more than that, all."""
    table = lake.trades(name, span.start_ms, span.end_ms, span.limit + 1)
    if table.num_rows <= span.limit:
        return table
    first_us, last_us = (table.column("ts")[at].value for at in (0, -1))
    if first_us // 1_000 != last_us // 1_000:
        return table
    return lake.trades(name, last_us // 1_000, last_us // 1_000 + 1, _LAKE_ROWS)


def lake_oldest(lake: LakeReads, name: str, span: Span) -> pa.Table:
    """The oldest trades of a stretch, one more than a page has, and of the last one's millisecond all.

    What lies behind them is not read, but for the rest of a piece.
    """
    times = [at for at in lake.trade_cuts(name, span.start_ms, _PIECE_ROWS) if at < span.end_ms]
    found: list[pa.Table] = []
    rows_found, step = 0, 1
    ends = deque([*times[1:], span.end_ms] if times else [])
    at_ms = span.start_ms
    while ends and rows_found <= span.limit:
        end_ms = ends[min(step, len(ends)) - 1]
        piece, at_ms = _lake_span(lake, name, at_ms, end_ms)
        found.append(piece)
        rows_found += piece.num_rows
        step = step * 2 if piece.num_rows * 2 <= span.limit else 1  # a market with few trades among many
        while ends and ends[0] <= at_ms:
            ends.popleft()
    return _cut_whole(pa.concat_tables(found), span.limit + 1) if found else lake.trades(name, 0, 0, 0)


def _cut_whole(table: pa.Table, count: int) -> pa.Table:
    """The first rows of a table in the order of time, up to the end of the last one's millisecond."""
    if table.num_rows <= count:
        return table
    times = ints(table, "ts")
    return table.slice(0, int(np.searchsorted(times, times[count - 1], side="right")))


def _is_enough(found: list[TradeRow], span: Span) -> bool:
    """Whether there is a page, and of its millisecond, should that be one alone, all."""
    return len(found) > span.limit and min(row.ts for row in found) < max(row.ts for row in found)


def _lake_span(lake: LakeReads, name: str, start_ms: int, end_ms: int) -> tuple[pa.Table, int]:
    """All trades of a stretch from `start_ms` that is short enough for one read, and where it ends."""
    for _ in range(_HALVINGS):
        table = lake.trades(name, start_ms, end_ms, _LAKE_ROWS)
        if table.num_rows < _LAKE_ROWS or end_ms - start_ms <= 1:
            return table, end_ms
        # The newest rows filled the read: their oldest time tells how far back a shorter stretch may reach.
        end_ms = start_ms + max(1, (end_ms - start_ms) // 2)
    return table, end_ms


def _trades_of(entries: Sequence[Entry], provider: str, coin: str, span: Span) -> list[TradeRow]:
    found: list[TradeRow] = []
    for entry in entries:
        if entry.fields.get("coin") != coin:
            continue
        try:
            trade = codec.decode(entry.fields, entry_id=entry.id)
        except BadEvent:
            continue
        if isinstance(trade, Trade) and trade.provider == provider and span.start_ms <= trade.ts < span.end_ms:
            found.append(rows.trade_row(trade))
    return found


def _trade_order(row: TradeRow) -> tuple[int, int, int]:
    return (row.ts, row.epoch, row.seq)


def _whole_ms(merged: list[TradeRow], span: Span) -> Page[TradeRow]:
    """A page that ends between two milliseconds, so that its cursor can be a time."""
    if span.forward:
        edge = merged[span.limit].ts
        page = [row for row in merged[: span.limit] if row.ts < edge]
        if not page:  # more trades in one millisecond than a page holds: all of them, once
            page = [row for row in merged if row.ts == edge]
            edge += 1
        return Page(page, f"s{edge}")
    edge = merged[-span.limit - 1].ts
    page = [row for row in merged[-span.limit :] if row.ts > edge]
    if not page:
        page = [row for row in merged if row.ts == edge]
        edge -= 1
    return Page(page, f"e{edge + 1}")
