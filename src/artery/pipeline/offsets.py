"""How far a micro-batch reaches in each stream. Pure planning over a reader of the bus."""

from collections.abc import Collection, Iterable

from artery.bus.base import START, place
from artery.bus.reader import BusReader
from artery.errors import BadEvent, PositionLost
from artery.model.events import Clock, Mark
from artery.pipeline import decode

Offsets = dict[str, str]
"""Stream → the position up to which it has been read."""

FAST = ("trade", "feed", "history")
STORE = ("trade", "book", "candle", "feed", "history", "symbol")
PROMPT = ("trade", "symbol")
SLOW = ("book", "candle", "feed")
"""Streams whose tables the store query writes less often, so that files stay few."""

FEED_MAX = 10_000
HISTORY_MAX = 40
"""Pages of history in a batch of candles, which others wait for."""
HISTORY_STORED_MAX = 200
"""Pages of history in a batch for the lake, where each commit costs more than its rows."""
BOOKS_MAX = 5_000
"""Books in a batch for the lake: one of 20 levels takes 33 KiB until it is a row. They wait for no other turn if there
are more, and those that the throttle leaves out cost little."""
_PAGE = 5_000
_LOOK = 10_000


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


def plan_store(reader: BusReader, start: Offsets, trades_max: int, due: Collection[str]) -> Offsets:
    """The end of the next batch for the lake: streams that are not due stay where they are, history never waits."""
    rest = trades_max // 4
    limits = {"trade": trades_max, "history": HISTORY_STORED_MAX, "book": min(rest, BOOKS_MAX)}
    return {
        stream: capped(reader, stream, start[stream], reader.head(stream), limits.get(stream, rest))
        if stream in due or stream == "history"
        else start[stream]
        for stream in STORE
    }


class Turns:
    """When which streams are due for the lake: trades and symbols every `store_s`, the slow ones with them every
    `slow_s`."""

    def __init__(self, store_s: float, slow_s: float) -> None:
        self._store_s = store_s
        self._slow_s = slow_s
        self._store_at = self._slow_at = float("-inf")

    def due(self, now: float) -> tuple[str, ...]:
        """The streams whose turn it is at this time on the monotonic clock; their next turn counts from here."""
        if now - self._store_at < self._store_s:
            return ()
        self._store_at = now
        if now - self._slow_at < self._slow_s:
            return PROMPT
        self._slow_at = now
        return (*PROMPT, *SLOW)


def capped(reader: BusReader, stream: str, after: str, head: str, limit: int) -> str:
    """`head`, or a nearer position if there are more than `limit` entries before it."""
    low, high = place(after), place(head)
    if high == low:
        return after
    if high < low:
        reader.read_raw(stream, after, 1)  # says what is wrong: the log was replaced
        return after
    step = reader.step(after, limit)
    if step is not None and place(step)[:-1] == high[:-1]:  # a log that counts, and still the same one
        return min(step, head, key=place)
    while limit > 0 and (entries := reader.read_raw(stream, after, min(limit, _LOOK), head)):
        after, limit = entries[-1][0], limit - len(entries)
        if len(entries) < _LOOK:
            break
    return after


def distance(reader: BusReader, after: str, head: str) -> int | None:
    """How many entries lie between two positions, the broker's own markers on Kafka too; None if positions do not
    tell."""
    low, high = place(after), place(head)
    if high <= low:
        return 0
    if reader.step(head, 1) is None:
        return None
    return high[-1] - low[-1] if low[:-1] == high[:-1] else high[-1]


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
