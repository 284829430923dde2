"""Hyperliquid's WebSocket frames, as pure functions; the simulated venue speaks the same.

Typed decoding: fields that are not known are ignored, wrong types are refused. One bad trade does not lose the
good ones beside it.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from artery.errors import BadEvent, BadInput
from artery.model.channels import check_market
from artery.model.decimals import number, positive
from artery.model.events import Book, Candle, Level, Mids, Trade
from artery.model.periods import Period
from artery.providers.frames import Ack, Complaint, Data, Garbage, Greeting, Heard, Pong, Stream

DEPTH = 20
GREETING = b"Websocket connection established."
MIDS_MAX = 20_000

_Ms = Annotated[int, msgspec.Meta(ge=0, le=4_102_444_800_000)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_TYPES = {"trades": "trades", "book": "l2Book", "mids": "allMids"}
_KINDS: dict[str, Literal["trades", "book", "mids"]] = {"trades": "trades", "l2Book": "book", "allMids": "mids"}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Frame(msgspec.Struct):
    channel: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class WireTrade(msgspec.Struct):
    """A trade as the venue writes it, on the socket and in REST."""

    coin: str
    side: Literal["A", "B"]
    px: str
    sz: str
    time: _Ms
    tid: _Count


class _Level(msgspec.Struct):
    px: str
    sz: str


class _Book(msgspec.Struct):
    coin: str
    time: _Ms
    levels: tuple[list[_Level], list[_Level]]


class _AllMids(msgspec.Struct):
    mids: dict[str, Any]


class WireCandle(msgspec.Struct):
    """A candle as the venue writes it; `t` is its start, and nothing says whether it is closed."""

    t: _Ms
    s: str
    i: str
    o: str
    c: str
    h: str
    l: str  # noqa: E741
    v: str
    n: _Count


class _Subscription(msgspec.Struct):
    type: str
    coin: str = ""


class _Response(msgspec.Struct):
    method: str
    subscription: _Subscription


class _CoinOnly(msgspec.Struct):
    coin: str


_frame = msgspec.json.Decoder(_Frame)
_trades = msgspec.json.Decoder(list[WireTrade])
_raw_rows = msgspec.json.Decoder(list[msgspec.Raw])
_trade = msgspec.json.Decoder(WireTrade)
_coin_only = msgspec.json.Decoder(_CoinOnly)
_book = msgspec.json.Decoder(_Book)
_mids = msgspec.json.Decoder(_AllMids)
_candle = msgspec.json.Decoder(WireCandle)
_response = msgspec.json.Decoder(_Response)
_subscription = msgspec.json.Decoder(_Subscription)


class HyperliquidDialect:
    """Hyperliquid as spoken to `provider`: the real venue's perpetuals, or the simulated one."""

    def __init__(self, provider: str, *, fast_books: bool = False) -> None:
        self.provider = provider
        self._fast_books = fast_books
        self._readers: dict[str, Callable[[msgspec.Raw, int], Heard]] = {
            "trades": self._read_trades,
            "l2Book": self._read_book,
            "allMids": self._read_mids,
            "candle": self._read_candle,
            "subscriptionResponse": _read_response,
            "error": _read_error,
            "pong": lambda _data, _received_ms: Pong(),
        }

    def parse(self, frame: bytes, received_ms: int) -> Heard:
        """What a frame says; never raises."""
        if frame == GREETING:
            return Greeting()
        try:
            message = _frame.decode(frame)
        except _UNREADABLE:
            return Garbage("not a message")
        reader = self._readers.get(message.channel)
        if reader is None:
            return Garbage("unknown channel")
        try:
            return reader(message.data, received_ms)
        except (*_UNREADABLE, BadInput):
            return Garbage(f"bad {message.channel}")

    def subscribe(self, stream: Stream) -> str:
        return self._order("subscribe", stream)

    def unsubscribe(self, stream: Stream) -> str:
        return self._order("unsubscribe", stream)

    def ping(self) -> str:
        return '{"method":"ping"}'

    def _order(self, method: str, stream: Stream) -> str:
        subscription: dict[str, Any] = {"type": _TYPES[stream.kind]}
        if stream.coin:
            subscription["coin"] = stream.coin
        if stream.kind == "book" and self._fast_books:
            subscription["fast"] = True
        return msgspec.json.encode({"method": method, "subscription": subscription}).decode()

    def _read_trades(self, data: msgspec.Raw, received_ms: int) -> Data:
        try:
            return Data("trades", [to_trade(row, self.provider, received_ms) for row in _trades.decode(data)])
        except (*_UNREADABLE, BadInput):
            return self._read_trades_singly(data, received_ms)

    def _read_trades_singly(self, data: msgspec.Raw, received_ms: int) -> Data:
        """The slow way, for a frame with something wrong in it: keep every trade that is right."""
        events: list[Trade | Book | Mids | Candle] = []
        torn: list[str] = []
        try:
            rows = _raw_rows.decode(data)
        except _UNREADABLE:
            return Data("trades", [], bad=1, torn=frozenset([""]))
        for row in rows:
            try:
                events.append(to_trade(_trade.decode(row), self.provider, received_ms))
            except (*_UNREADABLE, BadInput):
                torn.append(_coin_of(row))
        return Data("trades", events, bad=len(torn), torn=frozenset(torn))

    def _read_book(self, data: msgspec.Raw, received_ms: int) -> Data:
        book = _book.decode(data)
        bids, asks = (tuple(map(_level, side[:DEPTH])) for side in book.levels)
        if _unordered(bids, -1) or _unordered(asks, 1):
            raise BadEvent("bids must fall and asks must rise")
        event = Book(
            provider=self.provider,
            event_ts=received_ms,
            coin=check_market(book.coin),
            ts=book.time,
            bids=bids,
            asks=asks,
            depth=DEPTH,
        )
        return Data("book", [event])

    def _read_mids(self, data: msgspec.Raw, received_ms: int) -> Data:
        mids, bad = {}, 0
        rows = _mids.decode(data).mids
        if len(rows) > MIDS_MAX:
            raise BadEvent(f"a venue has at most {MIDS_MAX} markets")
        for coin, price in rows.items():
            try:
                mids[check_market(coin)] = positive(price, what="mid")
            except BadInput:
                bad += 1
        return Data("mids", [Mids(provider=self.provider, event_ts=received_ms, mids=mids)], bad=bad)

    def _read_candle(self, data: msgspec.Raw, received_ms: int) -> Data:
        candle = to_candle(_candle.decode(data), self.provider, received_ms)
        return Data("candle", [] if candle is None else [candle])


def to_trade(row: WireTrade, provider: str, received_ms: int) -> Trade:
    """The venue's trade as ours: its seller's side `A` is our `S`, its id is text."""
    return Trade(
        provider=provider,
        event_ts=received_ms,
        coin=check_market(row.coin),
        ts=row.time,
        tid=str(row.tid),
        px=positive(row.px, what="px"),
        sz=positive(row.sz, what="sz"),
        side="S" if row.side == "A" else "B",
    )


def to_candle(row: WireCandle, provider: str, now_ms: int) -> Candle | None:
    """The venue's candle as ours, closed if its end has passed; None for one without volume."""
    period = Period.parse(row.i)
    volume = number(row.v, what="v")
    if volume <= 0:
        return None
    candle = Candle(
        provider=provider,
        event_ts=now_ms,
        coin=check_market(row.s),
        period=period,
        start_ts=row.t,
        o=positive(row.o, what="o"),
        h=positive(row.h, what="h"),
        l=positive(row.l, what="l"),
        c=positive(row.c, what="c"),
        v=volume,
        n=row.n,
        closed=row.t + period.ms <= now_ms,
    )
    if row.t % period.ms or not candle.l <= min(candle.o, candle.c) <= max(candle.o, candle.c) <= candle.h:
        raise BadEvent("a candle starts at a multiple of its period, and its open and close lie between low and high")
    return candle


def _read_response(data: msgspec.Raw, _received_ms: int) -> Ack:
    response = _response.decode(data)
    return Ack(response.method, _stream(response.subscription))


def _read_error(data: msgspec.Raw, _received_ms: int) -> Ack | Complaint:
    """`Already subscribed: {…}` is as good as an acknowledgement."""
    words = msgspec.json.decode(data, type=str)
    for head, method in (("Already subscribed: ", "subscribe"), ("Already unsubscribed: ", "unsubscribe")):
        if words.startswith(head):
            return Ack(method, _stream(_subscription.decode(words.removeprefix(head))))
    return Complaint(words[:200])


def _stream(subscription: _Subscription) -> Stream | None:
    kind = _KINDS.get(subscription.type)
    return None if kind is None else Stream(kind, "" if kind == "mids" else subscription.coin)


def _coin_of(row: msgspec.Raw) -> str:
    try:
        return check_market(_coin_only.decode(row).coin)
    except (*_UNREADABLE, BadInput):
        return ""


def _level(level: _Level) -> Level:
    return positive(level.px, what="px"), positive(level.sz, what="sz")


def _unordered(levels: tuple[Level, ...], direction: int) -> bool:
    return any((after[0] - before[0]) * direction <= 0 for before, after in pairwise(levels))
