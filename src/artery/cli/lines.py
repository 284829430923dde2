"""Events as lines that people read."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from artery.cli.moments import iso_text, time_text
from artery.client import Gap
from artery.model.decimals import canonical
from artery.model.events import Book, Candle, Mids, Trade

_FIELDS = {"open": "o", "high": "h", "low": "l", "close": "c", "volume": "v", "trades": "n", "closed": "closed"}
CANDLE_COLUMNS = ("start", *_FIELDS)


def line_of(event: Trade | Book | Candle | Mids | Gap) -> str:
    """One event in one line, with its time in UTC."""
    if isinstance(event, Gap):
        between = f"{time_text(event.from_ms)} – {time_text(event.to_ms)}" if event.to_ms else "now"
        return f"{between}  gap in {event.series or 'every series'}: {event.reason}"
    return f"{time_text(event.event_ts, exact=True)}  {_what(event)}"


def _what(event: Trade | Book | Candle | Mids) -> str:
    if isinstance(event, Trade):
        return f"{event.coin:<6} trade   {'buy ' if event.side == 'B' else 'sell'} {event.sz} at {event.px}"
    if isinstance(event, Book):
        bid, ask = (f"{side[0][1]} at {side[0][0]}" if side else "none" for side in (event.bids, event.asks))
        return f"{event.coin:<6} book    bid {bid}, ask {ask}"
    if isinstance(event, Mids):
        return f"mids    {len(event.mids)} markets"
    state = "closed" if event.closed else "open"
    body = f"o {event.o} h {event.h} l {event.l} c {event.c} v {event.v}"
    return f"{event.coin:<6} {event.period!s:<3} candle of {time_text(event.start_ts)} ({state}) {body}"


def candle_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    """A row of history under `CANDLE_COLUMNS`: its time in UTC, decimals exact and without trailing zeros."""
    return (iso_text(row["start"]), *(_cell(row[field]) for field in _FIELDS.values()))


def _cell(value: Any) -> object:
    return canonical(value) if isinstance(value, Decimal) else value
