"""Events to and from the string fields that the bus keeps: strict in, canonical out."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from artery.errors import BadEvent, BadInput
from artery.model.channels import check_market, check_provider
from artery.model.decimals import canonical, number, positive
from artery.model.events import (
    EXTERNAL,
    Book,
    Candle,
    Clock,
    Event,
    FeedEvent,
    Level,
    Mark,
    MarketEvent,
    Mids,
    Trade,
)
from artery.model.fold import Bar
from artery.model.periods import Period

VERSION = "1"
Fields = dict[str, str]

DEPTH_MAX = 1_000
LATEST_MS = 4_102_444_800_000  # 2100-01-01: a time beyond it is a wrong unit, not a time


def encode(event: MarketEvent | FeedEvent) -> Fields:
    """The event as the bus keeps it: every value a string."""
    return _ENCODERS[type(event)](event)


def decode(fields: Mapping[str, str], *, entry_id: str = "") -> MarketEvent | FeedEvent:
    """The event in these fields, or `BadEvent`; `entry_id` names a foreign trade that has no `tid`."""
    if fields.get("ver") != VERSION:
        raise BadEvent(f"version {fields.get('ver')!r:.20} is not known; this reads version {VERSION}")
    decoder = _DECODERS.get(fields.get("t", ""))
    if decoder is None:
        raise BadEvent(f"event type {fields.get('t')!r:.20} is not known")
    try:
        return decoder(fields, entry_id)
    except BadEvent:
        raise
    except (BadInput, msgspec.DecodeError, KeyError, ValueError, TypeError) as error:
        raise BadEvent(f"{fields.get('t')}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return f"field {error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _head(kind: str, event: Event) -> Fields:
    fields = {"ver": VERSION, "t": kind, "provider": event.provider, "eventTs": str(event.event_ts)}
    if event.epoch:
        fields["epoch"] = str(event.epoch)
        fields["seq"] = str(event.seq)
    return fields


def _encode_trade(event: Trade) -> Fields:
    return _head("TRADE", event) | {
        "coin": event.coin,
        "ts": str(event.ts),
        "tid": event.tid,
        "px": canonical(event.px),
        "sz": canonical(event.sz),
        "side": event.side,
    }


def _encode_book(event: Book) -> Fields:
    return _head("BOOK_TOPN", event) | {
        "coin": event.coin,
        "ts": str(event.ts),
        "depth": str(event.depth),
        "bids": _encode_levels(event.bids),
        "asks": _encode_levels(event.asks),
    }


def candle_texts(of: Candle | Bar) -> tuple[str, ...]:
    """What makes two versions of a candle differ, as text, so that 1.50 is 1.5."""
    return (*map(canonical, (of.o, of.h, of.l, of.c, of.v)), str(of.n))


def encode_candle(event: Candle, texts: tuple[str, ...]) -> Fields:
    """As `encode`, for whoever has the candle's texts at hand."""
    fields = _head("CANDLE", event)
    fields["coin"] = event.coin
    fields["interval"] = str(event.period)
    fields["startTs"] = str(event.start_ts)
    fields["o"], fields["h"], fields["l"], fields["c"], fields["v"], fields["n"] = texts
    fields["isClosed"] = "true" if event.closed else "false"
    fields["rev"] = str(event.rev)
    if event.up_to:
        fields["upTo"] = event.up_to
    return fields


def _encode_candle(event: Candle) -> Fields:
    return encode_candle(event, candle_texts(event))


def _encode_mids(event: Mids) -> Fields:
    mids = {coin: canonical(price) for coin, price in event.mids.items()}
    return _head("MIDS", event) | {"mids": msgspec.json.encode(mids).decode()}


def _encode_mark(event: Mark) -> Fields:
    return {
        "ver": VERSION,
        "t": "MARK",
        "provider": event.provider,
        "coin": event.coin,
        "epoch": str(event.epoch),
        "ts": str(event.ts),
        "from": str(event.from_ms),
        "to": str(event.to_ms),
        "cause": event.cause,
        "upTo": event.up_to,
        "last": msgspec.json.encode(event.last).decode(),
    }


def _encode_clock(event: Clock) -> Fields:
    return {
        "ver": VERSION,
        "t": "CLOCK",
        "provider": event.provider,
        "epoch": str(event.epoch),
        "ts": str(event.ts),
        "upTo": event.up_to,
    }


def _encode_levels(levels: tuple[Level, ...]) -> str:
    return msgspec.json.encode([[canonical(price), canonical(size)] for price, size in levels]).decode()


def _decode_trade(fields: Mapping[str, str], entry_id: str) -> Trade:
    side = fields["side"]
    if side not in ("B", "S"):
        raise BadEvent(f"side must be B or S, not {side!r:.20}")
    tid = fields.get("tid") or entry_id
    if not tid:
        raise BadEvent("a trade without tid needs its entry's id")
    return Trade(
        **_head_of(fields),
        coin=check_market(fields["coin"]),
        ts=_ms(fields["ts"], "ts"),
        tid=tid,
        px=positive(fields["px"], what="px"),
        sz=positive(fields["sz"], what="sz"),
        side=side,  # type: ignore[arg-type]
    )


def _decode_book(fields: Mapping[str, str], _entry_id: str) -> Book:
    head = _head_of(fields)
    return Book(
        **head,
        coin=check_market(fields["coin"]),
        ts=_ms(fields["ts"], "ts") if "ts" in fields else head["event_ts"],
        depth=_whole(fields["depth"], "depth"),
        bids=_decode_levels(fields["bids"], "bids"),
        asks=_decode_levels(fields["asks"], "asks"),
    )


def _decode_candle(fields: Mapping[str, str], _entry_id: str) -> Candle:
    closed = fields["isClosed"]
    if closed not in ("true", "false"):
        raise BadEvent(f"isClosed must be true or false, not {closed!r:.20}")
    candle = Candle(
        **_head_of(fields),
        coin=check_market(fields["coin"]),
        period=Period.parse(fields["interval"]),
        start_ts=_ms(fields["startTs"], "startTs"),
        o=positive(fields["o"], what="o"),
        h=positive(fields["h"], what="h"),
        l=positive(fields["l"], what="l"),
        c=positive(fields["c"], what="c"),
        v=_not_negative(fields["v"], "v"),
        n=_whole(fields.get("n", "0"), "n"),
        closed=closed == "true",
        rev=_whole(fields.get("rev", "0"), "rev"),
        up_to=fields.get("upTo", ""),
    )
    if candle.start_ts % candle.period.ms:
        raise BadEvent(f"startTs {candle.start_ts} is not a multiple of {candle.period}")
    if not candle.l <= min(candle.o, candle.c) <= max(candle.o, candle.c) <= candle.h:
        raise BadEvent("o and c must lie between l and h")
    return candle


def _decode_mids(fields: Mapping[str, str], _entry_id: str) -> Mids:
    mids = msgspec.json.decode(fields["mids"], type=dict[str, str])
    return Mids(**_head_of(fields), mids={coin: number(price, what="mid") for coin, price in mids.items()})


def _decode_mark(fields: Mapping[str, str], _entry_id: str) -> Mark:
    return Mark(
        provider=check_provider(fields["provider"]),
        coin=fields.get("coin", ""),
        epoch=_whole(fields["epoch"], "epoch"),
        ts=_ms(fields["ts"], "ts"),
        from_ms=_ms(fields["from"], "from"),
        to_ms=_ms(fields["to"], "to"),
        cause=fields["cause"],
        up_to=fields["upTo"],
        last=msgspec.json.decode(fields.get("last", "{}"), type=dict[str, str]),
    )


def _decode_clock(fields: Mapping[str, str], _entry_id: str) -> Clock:
    return Clock(
        provider=check_provider(fields["provider"]),
        epoch=_whole(fields["epoch"], "epoch"),
        ts=_ms(fields["ts"], "ts"),
        up_to=fields["upTo"],
    )


def _head_of(fields: Mapping[str, str]) -> dict[str, Any]:
    return {
        "provider": check_provider(fields.get("provider", EXTERNAL)),
        "event_ts": _ms(fields["eventTs"], "eventTs"),
        "epoch": _whole(fields.get("epoch", "0"), "epoch"),
        "seq": _whole(fields.get("seq", "0"), "seq"),
    }


def _decode_levels(text: str, what: str) -> tuple[Level, ...]:
    rows = msgspec.json.decode(text, type=list[tuple[str, str]])
    if len(rows) > DEPTH_MAX:
        raise BadEvent(f"{what} has {len(rows)} levels, more than {DEPTH_MAX}")
    return tuple((positive(price, what=what), _not_negative(size, what)) for price, size in rows)


def _whole(text: str, what: str) -> int:
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 19):
        raise BadEvent(f"{what} must be a whole number written as a string, not {text!r:.40}")
    return int(text)


def _ms(text: str, what: str) -> int:
    value = _whole(text, what)
    if value > LATEST_MS:
        raise BadEvent(f"{what} must be Unix milliseconds, not {text!r:.40}")
    return value


def _not_negative(text: str, what: str) -> Decimal:
    value = number(text, what=what)
    if value < 0:
        raise BadEvent(f"{what} must not be below zero, not {text!r:.40}")
    return value


_ENCODERS: dict[type, Callable[[Any], Fields]] = {
    Trade: _encode_trade,
    Book: _encode_book,
    Candle: _encode_candle,
    Mids: _encode_mids,
    Mark: _encode_mark,
    Clock: _encode_clock,
}
_DECODERS: dict[str, Callable[[Mapping[str, str], str], MarketEvent | FeedEvent]] = {
    "TRADE": _decode_trade,
    "BOOK_TOPN": _decode_book,
    "CANDLE": _decode_candle,
    "MIDS": _decode_mids,
    "MARK": _decode_mark,
    "CLOCK": _decode_clock,
}
