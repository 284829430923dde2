"""What the gateway's frames mean to a client: events, gaps, and holes that nobody mentioned. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from artery.errors import ArteryError, BadEvent, BadInput, NotAllowed, TooMuch, Unavailable, UnknownChannel
from artery.model import codec
from artery.model.channels import Channel
from artery.model.events import Book, Candle, Mids, Trade
from artery.model.series import Position

Event = Trade | Book | Candle | Mids

_ERRORS: dict[str, type[ArteryError]] = {
    "unauthenticated": NotAllowed,
    "forbidden_scope": NotAllowed,
    "unknown_channel": UnknownChannel,
    "bad_request": BadInput,
    "too_large": BadInput,
    "subscription_limit": TooMuch,
    "rate_limited": TooMuch,
}


class Gap(msgspec.Struct, frozen=True):
    """A hole in a series: what lay between was not delivered, for this reason."""

    channel: Channel
    series: str
    reason: str
    from_position: str = ""
    to_position: str = ""
    from_ms: int = 0
    to_ms: int = 0


def error_of(frame: Mapping[str, Any]) -> ArteryError:
    """The error that an `error` frame or an HTTP error body speaks of."""
    kind = _ERRORS.get(str(frame.get("code")), Unavailable)
    return kind(str(frame.get("message") or "the gateway gave no reason"))


def subscribe(channel: Channel, types: Sequence[str], since: Mapping[str, Any] | None) -> bytes:
    """The frame that asks for a channel."""
    wanted: dict[str, Any] = {"channel": str(channel)}
    if types:
        wanted["types"] = list(types)
    if since:
        wanted["since"] = dict(since)
    return msgspec.json.encode({"type": "subscribe", "id": "1", "channels": [wanted]})


class Tracker:
    """Turns frames into events and gaps, and remembers where each series is, to go on from there."""

    def __init__(self) -> None:
        self._last: dict[str, Position] = {}

    def since(self) -> dict[str, Any] | None:
        """What to ask for when coming back: everything after what was seen."""
        if not self._last:
            return None
        return {"positions": {series: str(position) for series, position in self._last.items()}}

    def take(self, frame: Mapping[str, Any]) -> Iterator[Event | Gap]:
        """The events and gaps in a frame of the gateway; an `error` frame is raised."""
        kind = frame.get("type")
        if kind == "event":
            yield from self._event(frame)
        elif kind == "gap":
            yield self._gap(frame)
        elif kind == "error":
            raise error_of(frame)

    def _event(self, frame: Mapping[str, Any]) -> Iterator[Event | Gap]:
        event = codec.decode(frame["data"])
        if not isinstance(event, (Trade, Book, Candle, Mids)):
            raise BadEvent(f"{frame['data'].get('t')} is not an event for clients")
        text = frame.get("position") or ""
        if text and event.epoch:
            series, position = frame["series"], Position.parse(text)
            last = self._last.get(series)
            if last and position <= last:
                return  # seen before the connection broke
            if last and series == "TRADE" and not position.follows(last):
                yield Gap(event.channel, series, "missed", str(last), text, last.event_ts, position.event_ts)
            self._last[series] = position
        yield event

    def _gap(self, frame: Mapping[str, Any]) -> Gap:
        series, to_position = str(frame.get("series", "")), str(frame.get("to") or "")
        if to_position and series in self._last:
            self._last[series] = max(self._last[series], Position.parse(to_position))
        return Gap(
            Channel.parse(str(frame["channel"])),
            series,
            str(frame.get("reason", "")),
            str(frame.get("from") or ""),
            to_position,
            int(frame.get("from_ms") or 0),
            int(frame.get("to_ms") or 0),
        )
