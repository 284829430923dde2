"""Indicators over a stretch of history: folded on request, from where the live values begin."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from artery.errors import Unavailable
from artery.gateway.history import History, Page
from artery.gateway.rows import CandleRow
from artery.gateway.span import Span
from artery.indicators.bar import Bar
from artery.indicators.places import values_key
from artery.indicators.standard import NAMES, VWAP, fold
from artery.model.periods import Period
from artery.store.base import Store

LEAD_ROWS = 2_000
"""Candles before a stretch that begins before the live values do."""
LEAD_MAX = 5_000


Values = dict[str, int | float | None]


class Record(msgspec.Struct, frozen=True, rename={"first": "from"}):
    """What the engine keeps for a series; a series that it has not seen yet has no values."""

    closed: Values | None = None
    open: Values | None = None
    first: int = 0
    position: str = "0"
    warm: bool = False


class Stretch(msgspec.Struct, frozen=True):
    """Rows of values, oldest first, the candle that their fold began with, and the cursor of the next page."""

    rows: list[dict[str, Any]]
    first: int
    next: str | None


async def now(store: Store, provider: str, coin: str, period: Period) -> Record:
    """The newest values."""
    raw = await store.get(values_key(provider, coin, period))
    try:
        return msgspec.json.decode(raw, type=Record) if raw is not None else Record()
    except msgspec.MsgspecError as error:
        raise Unavailable(
            f"the values of {provider}:{coin} cannot be read ({error}); the engine writes them anew"
        ) from None


async def over(history: History, provider: str, coin: str, period: Period, span: Span, first: int) -> Stretch:
    """The values of one page of candles; `first` is where the live values begin, so that both have the same bits."""
    page = await history.candles(provider, coin, period, span)
    if not page.rows:
        return Stretch([], first, None)
    start = page.rows[0].start
    known = 0 < first <= start
    before = Span(first if known else 0, start, LEAD_MAX if known else LEAD_ROWS, forward=False)
    lead = await history.candles(provider, coin, period, before) if not known or first < start else Page([])
    return await asyncio.to_thread(_folded, lead.rows, page)


def _folded(lead: Sequence[CandleRow], page: Page[CandleRow]) -> Stretch:
    start = page.rows[0].start
    candles = _settled([*lead, *page.rows])
    closed = {row.start: row.closed for row in candles}
    rows = [
        {"startTs": bar.start, "rev": bar.rev, "closed": closed[bar.start], **dict(zip(NAMES, values, strict=True))}
        for bar, values in fold(map(_bar, candles))
        if bar.start >= start
    ]
    return Stretch(rows, candles[0].start if candles else start, page.next)


def _settled(candles: list[CandleRow]) -> list[CandleRow]:
    """Closed candles, and after the last of them those that are still open."""
    last = max((row.start for row in candles if row.closed), default=0)
    return [row for row in candles if row.closed or row.start > last]


def _bar(row: CandleRow) -> Bar:
    return Bar(row.start, row.rev, float(row.o), float(row.h), float(row.l), float(row.c), float(row.v))


def values_example() -> Values:
    """What one candle's values look like."""
    return {"startTs": 1_730_000_040_000, "rev": 0, **dict.fromkeys(NAMES, 43_250.25), VWAP: 43_248.5}
