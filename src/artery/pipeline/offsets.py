"""How far a micro-batch reaches in each stream. Pure planning over a reader of the bus."""

from collections.abc import Iterable

from artery.bus.base import START, place
from artery.bus.reader import BusReader
from artery.errors import BadEvent, PositionLost
from artery.model.events import Clock, Mark
from artery.pipeline import decode

Offsets = dict[str, str]
"""Stream → the position up to which it has been read."""

FAST = ("trade", "feed", "history")
STORE = ("trade", "book", "candle", "feed", "history")
SLOW = ("book", "candle", "feed", "history")
"""Streams whose tables the store query writes less often, so that files stay few."""

FEED_MAX = 10_000
HISTORY_MAX = 40
_PAGE = 1_000


def plan_fast(reader: BusReader, start: Offsets, trades_max: int) -> Offsets:
    """The end of the next batch of candles: no feed entry before the trades that it follows."""
    feed_head = reader.head("feed")  # before the trades' head, so that every entry up to it follows trades up to that
    history_head = reader.head("history")
    trade_head = reader.head("trade")
    trade = capped(reader, "trade", start["trade"], trade_head, trades_max)
    feed = capped(reader, "feed", start["feed"], feed_head, FEED_MAX)
    if trade != trade_head:
        feed = _vouched(reader, start["feed"], feed, trade)
    return {
        "trade": trade,
        "feed": feed,
        "history": capped(reader, "history", start["history"], history_head, HISTORY_MAX),
    }


def plan_store(reader: BusReader, start: Offsets, trades_max: int, *, slow: bool) -> Offsets:
    """The end of the next batch for the lake; the slow streams stay where they are, unless it is their turn."""
    heads = {stream: reader.head(stream) for stream in STORE}
    slow = slow or place(heads["history"]) > place(start["history"])
    limits = {"trade": trades_max, "history": HISTORY_MAX}
    return {
        stream: capped(reader, stream, start[stream], head, limits.get(stream, trades_max // 2))
        if slow or stream not in SLOW
        else start[stream]
        for stream, head in heads.items()
    }


def capped(reader: BusReader, stream: str, after: str, head: str, limit: int) -> str:
    """`head`, or a nearer position if there are more than `limit` entries before it."""
    low, high = place(after), place(head)
    if high == low:
        return after
    if high < low:
        reader.read_raw(stream, after, 1)  # says what is wrong: the log was replaced
        return after
    if len(low) == len(high) == 1:  # a log that counts its entries
        return str(min(high[0], low[0] + limit))
    entries = reader.read_raw(stream, after, limit, head)
    return entries[-1][0] if entries else after


def first_readable(reader: BusReader, stream: str, position: str) -> str:
    """`position`, or the place from which the stream can be read if that was trimmed away."""
    try:
        reader.read_raw(stream, position, 1)
    except PositionLost as lost:
        return lost.first
    return position


def span(reader: BusReader, stream: str, after: str, end: str) -> Iterable[decode.Raw]:
    """Every entry after a position, up to and including another, a page at a time."""
    while place(after) < place(end):
        entries = reader.read_raw(stream, after, _PAGE, end)
        if not entries:
            return
        yield from entries
        after = entries[-1][0]


def _vouched(reader: BusReader, after: str, end: str, trade: str) -> str:
    """The last feed entry before the first that follows a trade past `trade`."""
    reached = after
    for raw in span(reader, "feed", after, end):
        if place(_up_to(raw)) > place(trade):
            break
        reached = raw[0]
    return reached


def _up_to(raw: decode.Raw) -> str:
    try:
        event = decode.event(raw)
    except BadEvent:
        return START
    return event.up_to if isinstance(event, Clock | Mark) else START
