"""Events as a producer writes them and as a consumer reads them; pure."""

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from artery.bus.base import Entry
from artery.errors import BadEvent
from artery.model import codec
from artery.model.decimals import canonical
from artery.model.events import FeedEvent, MarketEvent

Event = MarketEvent | FeedEvent

STREAMS = {"TRADE": "trade", "BOOK_TOPN": "book", "CANDLE": "candle", "MARK": "feed", "CLOCK": "feed"}
"""The stream that keeps each type of event."""
KINDS = tuple(dict.fromkeys(STREAMS.values()))
FIELDS_MAX = 100


def to_publish(event: Event | Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The stream for an event and its fields there, or `BadEvent`.

    Of a mapping, numbers become decimal text, truth values `true` and `false`, the levels of a book JSON text; `ver`
    is put in. What the codec does not accept is refused before it is written.
    """
    fields = _fields_of(event) if isinstance(event, Mapping) else codec.encode(event)
    stream = STREAMS.get(fields.get("t", ""))
    if stream is None:
        raise BadEvent(f"t must be one of {', '.join(STREAMS)} to be put on the bus, not {fields.get('t')!r:.20}")
    codec.decode(fields, entry_id="new")
    return stream, fields


def decode_stream_event(entry: Entry | Mapping[str, str]) -> Event | None:
    """The event in an entry or in its fields, or None if it is none that can be understood.

    A foreign trade has no `tid`: it is named by its entry's id, or, where only fields are given, by a hash of them
    (of two that are equal to the millisecond, that makes one).
    """
    fields, entry_id = (entry.fields, entry.id) if isinstance(entry, Entry) else (entry, "")
    try:
        return codec.decode(fields, entry_id=entry_id or _hash_of(fields))
    except BadEvent:
        return None


def why_not(entry: Entry) -> str:
    """Why an entry cannot be understood."""
    try:
        codec.decode(entry.fields, entry_id=entry.id)
    except BadEvent as error:
        return str(error)
    return ""


def _hash_of(fields: Mapping[str, str]) -> str:
    if fields.get("t") != "TRADE" or fields.get("tid"):
        return ""
    return hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:16]


def _fields_of(event: Mapping[str, Any]) -> dict[str, str]:
    if len(event) > FIELDS_MAX:
        raise BadEvent(f"an event has at most {FIELDS_MAX} fields, not {len(event)}")
    return {"ver": codec.VERSION} | {str(name): _text(str(name), value) for name, value in event.items()}


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        levels = [[_text(name, part) for part in level] if _is_list(level) else None for level in value]
        if None in levels or len(levels) > codec.DEPTH_MAX:
            raise BadEvent(f"{name} must be at most {codec.DEPTH_MAX} levels of [price, size]")
        return msgspec.json.encode(levels).decode()
    if isinstance(value, (int, float, Decimal)):
        return _number(name, value)
    raise BadEvent(f"{name} must be text, a number, true or false, not {type(value).__name__}")


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not any(isinstance(part, (list, tuple)) for part in value)


def _number(name: str, value: int | float | Decimal) -> str:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite() or abs(exact.adjusted()) > 40:
        raise BadEvent(f"{name} must be a number that can be written out, not {value!r:.40}")
    return canonical(exact)
