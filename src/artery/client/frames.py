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
    "forbidden": NotAllowed,
    "unknown_channel": UnknownChannel,
    "bad_request": BadInput,
    "too_large": BadInput,
    "subscription_limit": TooMuch,
    "rate_limited": TooMuch,
}
_OF_THE_MOMENT = ("internal", "rate_limited")
"""What may be said of a request, too, and not be true of the next."""

_SNAPSHOTS = ("BOOK_TOPN", "MIDS")

CANDLES_MAX = 10_000
"""Of so many candles the newest version seen is remembered, so that none comes twice."""


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


def passes(frame: Mapping[str, Any]) -> bool:
    """Whether this is an `error` frame of a trouble that a new connection, a little later, need not meet."""
    if frame.get("type") != "error" or not error_of(frame).temporary:
        return False
    return frame.get("id") is None or frame.get("code") in _OF_THE_MOMENT


def subscribe(channel: Channel, types: Sequence[str], since: Mapping[str, Any] | None, number: int = 1) -> bytes:
    """The frame that asks for a channel."""
    wanted: dict[str, Any] = {"channel": str(channel)}
    if types:
        wanted["types"] = list(types)
    if since:
        wanted["since"] = dict(since)
    return msgspec.json.encode({"type": "subscribe", "id": str(number), "channels": [wanted]})


class Tracker:
    """Turns frames into events and gaps, and remembers where each series is, to go on from there.

    `start` is where each series begins: a position, or `0.0.<Unix ms>` for a time.
    """

    def __init__(self, start: Mapping[str, str] | None = None) -> None:
        self._start = dict(start or {})
        self._begun: dict[str, str] = {}
        self._last: dict[str, Position] = {}
        self._candles: dict[tuple[str, int], tuple[bool, int, int]] = {}
        self._asked = 0
        self._deaf = False

    def ask(self, channel: Channel, types: Sequence[str]) -> bytes:
        """The frame that asks for everything after what was seen; what came for an older request is passed over."""
        self._asked += 1
        self._deaf = True
        return subscribe(channel, types, self.since(), self._asked)

    def since(self) -> dict[str, Any] | None:
        """Everything after what was seen, and of what was not seen yet, everything from where it begins."""
        positions = self._begun | self._start | {series: str(position) for series, position in self._last.items()}
        return {"positions": positions} if positions else None

    def more(self, frame: Mapping[str, Any]) -> bool:
        """Whether the gateway has ended a replay that goes on with another request; it begins where this one ended."""
        if self._deaf or frame.get("type") != "gap" or not frame.get("resume"):
            return False
        series, resume = str(frame.get("series", "")), Position.parse(str(frame["resume"]))
        if resume.epoch:
            self._last[series] = resume
        else:  # a time: of what the lake brought no place is known, and an older one would leave out what follows
            self._last.pop(series, None)
            self._start[series] = str(resume)
        return True

    def take(self, frame: Mapping[str, Any]) -> Iterator[Event | Gap]:
        """The events and gaps in a frame of the gateway; an `error` frame is raised."""
        kind = frame.get("type")
        if kind == "error":
            raise error_of(frame)
        if kind == "subscribed":
            self._deaf = self._deaf and str(frame.get("id")) != str(self._asked)
            self._begin(frame)
        elif self._deaf:
            return
        elif kind == "event":
            yield from self._event(frame)
        elif kind == "gap":
            yield self._gap(frame)
        elif kind == "replay_complete":
            self._caught_up(frame)

    def _caught_up(self, frame: Mapping[str, Any]) -> None:
        """What came from the lake has no position; from here on there is one."""
        series, text = str(frame.get("series", "")), str(frame.get("position") or "")
        if not text:
            return
        reached = Position.parse(text)
        if series in _SNAPSHOTS:  # no hole is told of these: in a log that began anew they are further back
            self._last[series] = reached
        else:
            self._last[series] = max(self._last.get(series, reached), reached)

    def _begin(self, frame: Mapping[str, Any]) -> None:
        """A series that starts live starts behind what the gateway says: so a first cut loses nothing either."""
        for channel in frame.get("channels", ()):
            self._begun = dict(channel.get("positions", {})) | self._begun

    def _event(self, frame: Mapping[str, Any]) -> Iterator[Event | Gap]:
        event = codec.decode(frame["data"])
        if not isinstance(event, (Trade, Book, Candle, Mids)):
            raise BadEvent(f"{frame['data'].get('t')} is not an event for clients")
        if isinstance(event, Candle) and not self._is_newer(event):
            return  # the same version of a candle again
        text = frame.get("position") or ""
        if text and event.epoch:
            series, position = frame["series"], Position.parse(text)
            last = self._last.get(series)
            if last and position <= last and not isinstance(event, Candle):
                return  # seen before the connection broke
            if last and series == "TRADE" and not position.follows(last):
                yield Gap(event.channel, series, "missed", str(last), text, last.event_ts, position.event_ts)
            self._last[series] = max(position, last) if last else position
        yield event

    def _is_newer(self, candle: Candle) -> bool:
        key = (candle.series, candle.start_ts)
        known = self._candles.pop(key, None)
        if known is not None and known >= candle.version:
            self._candles[key] = known
            return False
        self._candles[key] = candle.version
        if len(self._candles) > CANDLES_MAX:
            del self._candles[next(iter(self._candles))]
        return True

    def _leap(self, series: str, after: str, to: str, reason: str) -> None:
        """Go on behind a hole; one that leads back, or what was trimmed up to nowhere, says that the log began anew:
        earlier places mean nothing in it."""
        last = self._last.get(series)
        if last is None or not after:
            return
        if to:
            behind = Position.parse(to)
            self._last[series] = behind if behind < Position.parse(after) else max(last, behind)
        elif reason == "trimmed":
            del self._last[series]

    def _gap(self, frame: Mapping[str, Any]) -> Gap:
        series, to_position = str(frame.get("series", "")), str(frame.get("to") or "")
        self._leap(series, str(frame.get("from") or ""), to_position, str(frame.get("reason", "")))
        return Gap(
            Channel.parse(str(frame["channel"])),
            series,
            str(frame.get("reason", "")),
            str(frame.get("from") or ""),
            to_position,
            int(frame.get("from_ms") or 0),
            int(frame.get("to_ms") or 0),
        )
