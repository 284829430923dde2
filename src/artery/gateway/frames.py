"""What travels on `/v1/stream`: event frames that are encoded once for all sessions, and what clients say. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from artery.errors import BadInput
from artery.live.base import Message
from artery.model.channels import ALL_MIDS, Channel
from artery.model.periods import Period
from artery.model.series import Position

_TEXT, _CLOSE, _PING = 0x81, 0x88, 0x89
_SERIES = ("TRADE", "BOOK_TOPN", "MIDS")
_SNAPSHOTS = ("BOOK_TOPN", "MIDS")

MARKET_TYPES = frozenset(("TRADE", "BOOK_TOPN", "CANDLE:1m"))
MIDS_TYPES = frozenset(("MIDS",))

encode = msgspec.json.encode


def text(payload: bytes) -> bytes:
    """One unfragmented, unmasked text frame."""
    return _text_head(len(payload)) + payload


@lru_cache(maxsize=4_096)
def _text_head(size: int) -> bytes:
    if size < 126:
        return bytes((_TEXT, size))
    if size < 65_536:
        return bytes((_TEXT, 126)) + size.to_bytes(2, "big")
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big")


class Frame:
    """One event as bytes for the wire; `snapshot` ones may be replaced by newer ones of their series.

    A `gap` is carried like an event, at the position where it ends.
    """

    __slots__ = ("channel", "gap", "position", "series", "snapshot", "wire")

    def __init__(
        self, channel: str, series: str, position: str, wire: bytes, snapshot: bool = False, gap: bool = False
    ) -> None:
        self.channel = channel
        self.series = series
        self.position = position
        self.wire = wire
        self.snapshot = snapshot
        self.gap = gap


class Batch:
    """Frames that a group of sessions gets together, joined once for all of them."""

    __slots__ = ("frames", "wire")

    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames
        self.wire = frames[0].wire if len(frames) == 1 else b"".join([frame.wire for frame in frames])


def join(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    return batches[0] if len(batches) == 1 else Batch([frame for batch in batches for frame in batch.frames])


_EVENT_DATA = b',"data":'


@lru_cache(maxsize=16_384)
def _event_head(channel: str, series: str) -> bytes:
    return b'{"type":"event","channel":%b,"series":%b,"position":' % (encode(channel), encode(series))


def event(message: Message, *, snapshot: bool | None = None) -> Frame:
    """The frame of an event; its data is taken as it is."""
    channel, series, position, data = message.channel, message.series, message.position, message.data
    head, place = _event_head(channel, series), encode(position)
    size = len(head) + len(place) + len(_EVENT_DATA) + len(data) + 1
    wire = b"".join((_text_head(size), head, place, _EVENT_DATA, data, b"}"))
    return Frame(channel, series, position, wire, series in _SNAPSHOTS if snapshot is None else snapshot)


def gap(
    channel: str, series: str, reason: str, *, after: str = "", to: str = "", from_ms: int = 0, to_ms: int = 0
) -> Frame:
    """What lies behind position `after`, up to and with `to`, was not delivered."""
    payload = {
        "type": "gap",
        "channel": channel,
        "series": series,
        "from": after,
        "to": to,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "reason": reason,
    }
    return Frame(channel, series, to, text(encode(payload)), gap=True)


def missed(channel: str, series: str, reason: str, first: str, last: str) -> Frame:
    """The gap of the events from position `first` to position `last`, both missing."""
    try:
        begin, end = Position.parse(first), Position.parse(last)
    except BadInput:
        return gap(channel, series, reason)
    after = Position(begin.epoch, max(begin.seq - 1, 0), begin.event_ts)
    return gap(channel, series, reason, after=str(after), to=last, from_ms=begin.event_ts, to_ms=end.event_ts)


def reply(kind: str, request_id: str | int | None, **fields: Any) -> bytes:
    """A control frame's payload that answers a request."""
    head: dict[str, Any] = {"type": kind}
    if request_id is not None:
        head["id"] = request_id
    return encode(head | fields)


def error(request_id: str | int | None, code: str, message: str) -> bytes:
    return reply("error", request_id, code=code, message=message)


class Since(msgspec.Struct, frozen=True):
    """Where a client wants to go on from: a time, or the last position of each series that it has."""

    ms: int | None = None
    positions: dict[str, str] | None = None


class Wanted(msgspec.Struct, frozen=True):
    """One channel of a request; `types` is None where the client left it open."""

    channel: str
    types: frozenset[str] | None = None
    since: Since | None = None


class Request(msgspec.Struct, frozen=True):
    """What a client asked for."""

    kind: str
    id: str | int | None
    channels: tuple[Wanted, ...] = ()


class _Wanted(msgspec.Struct):
    channel: str
    types: list[str] | None = None
    since: Since | None = None


class _Inbound(msgspec.Struct):
    type: str
    id: str | int | None = None
    channels: list[str | _Wanted] | None = None


class _JustId(msgspec.Struct):
    id: str | int | None = None


_inbound = msgspec.json.Decoder(_Inbound)
_just_id = msgspec.json.Decoder(_JustId)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)


def request(data: bytes, *, types_max: int = 64) -> Request:
    """What this text asks for, or `BadInput` in one sentence."""
    try:
        inbound = _inbound.decode(data)
    except _UNREADABLE as problem:
        raise BadInput(f"a frame must be a JSON object with a type: {str(problem)[:200]}") from None
    if inbound.type not in ("subscribe", "unsubscribe", "ping"):
        raise BadInput(f"type must be subscribe, unsubscribe or ping, not {inbound.type!r:.40}")
    if inbound.type == "ping":
        return Request("ping", inbound.id)
    if inbound.channels is None:
        raise BadInput(f"{inbound.type} needs channels: a list of names, or of objects with a channel")
    check = _known_shape if inbound.type == "subscribe" else _name_only
    return Request(inbound.type, inbound.id, tuple(check(item, types_max) for item in inbound.channels))


def request_id(data: bytes) -> str | int | None:
    """The id of a request that cannot be understood otherwise, so that the answer can still name it."""
    try:
        return _just_id.decode(data).id
    except _UNREADABLE:
        return None


def series(names: Iterable[str]) -> frozenset[str]:
    """Types as clients write them, in their canonical form (`CANDLE:60s` is `CANDLE:1m`)."""
    return frozenset(_series(name) for name in names)


def default_types(channel: str) -> frozenset[str]:
    """Everything that the channel carries; of candles, those of a minute."""
    return MIDS_TYPES if channel.endswith(f":{ALL_MIDS}") else MARKET_TYPES


def _name_only(item: "str | _Wanted", _types_max: int) -> Wanted:
    return Wanted(item if isinstance(item, str) else item.channel)


def _known_shape(item: "str | _Wanted", types_max: int) -> Wanted:
    if isinstance(item, str):
        return Wanted(str(Channel.parse(item)))
    if item.types is not None and not 0 < len(item.types) <= types_max:
        raise BadInput(f"types must name 1 to {types_max} types, or be left out for all that the channel carries")
    types = series(item.types) if item.types is not None else None
    return Wanted(str(Channel.parse(item.channel)), types, _checked(item.since))


def _checked(since: Since | None) -> Since | None:
    if since is None:
        return None
    if (since.ms is None) == (since.positions is None):
        raise BadInput("since must have either ms or positions")
    if since.ms is not None and not 0 <= since.ms < 2**53:
        raise BadInput("since.ms must be Unix milliseconds")
    return Since(since.ms, _positions(since.positions) if since.positions is not None else None)


def _positions(positions: Mapping[str, str]) -> dict[str, str]:
    return {_series(name): str(Position.parse(position)) for name, position in positions.items()}


def _series(name: str) -> str:
    kind, colon, interval = name.partition(":")
    if kind == "CANDLE" and colon:
        return f"CANDLE:{Period.parse(interval)}"
    if name not in _SERIES:
        raise BadInput(f"{name!r:.40} is not a type: use TRADE, BOOK_TOPN, MIDS or CANDLE with a period, as CANDLE:1m")
    return name
