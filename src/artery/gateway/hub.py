"""Channels to sessions: each event becomes one frame, shared by all who asked for it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from artery.bus.losses import CAUSE as TRIMMED
from artery.errors import BadInput
from artery.gateway import frames, metrics
from artery.gateway.frames import Batch, Frame
from artery.live.base import Message
from artery.model import codec
from artery.model.channels import PREFIX, Channel
from artery.model.events import Candle, Mark, MarketEvent
from artery.model.series import Position

SERIES_MAX = 20_000

_Key = tuple[str, str]
_T = TypeVar("_T")


class Sink(Protocol):
    """Whoever gets events: a session's connection, or a replay that holds them for a while."""

    def deliver(self, batch: Batch) -> None:
        """Never waits and never raises."""
        ...


class Hub:
    """Who wants what, where each series stands, and the newest snapshot of each. Synchronous; one loop owns it."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[frozenset[str], dict[Sink, None]]] = {}
        self._places: dict[_Key, Position] = {}
        self._newest: dict[_Key, Message] = {}
        self._candles: dict[_Key, tuple[int, tuple[bool, int, int]]] = {}
        self._epochs: dict[str, int] = {}

    def join(self, sink: Sink, channel: str, types: frozenset[str]) -> None:
        """Give these types of a channel to the sink from now on."""
        self._groups.setdefault(channel, {}).setdefault(types, {})[sink] = None

    def leave(self, sink: Sink, channel: str, types: frozenset[str]) -> None:
        """Stop it; leaving what was not joined does nothing."""
        groups = self._groups.get(channel, {})
        sinks = groups.get(types, {})
        sinks.pop(sink, None)
        if not sinks:
            groups.pop(types, None)
        if not groups:
            self._groups.pop(channel, None)

    def subscribers(self, channel: str) -> int:
        return sum(len(sinks) for sinks in self._groups.get(channel, {}).values())

    def positions(self, channel: str, types: Iterable[str]) -> dict[str, str]:
        """Where each of these series stands."""
        places = {series: self._places.get((channel, series)) for series in types}
        return {series: str(place) for series, place in sorted(places.items()) if place is not None}

    def place(self, channel: str, series: str) -> Position | None:
        """Where a series stands."""
        return self._places.get((channel, series))

    def snapshots(self, channel: str, types: Iterable[str]) -> list[Frame]:
        """The newest book, mids and candles, for who has just come."""
        found = [self._newest.get((channel, series)) for series in sorted(types) if series != "TRADE"]
        return [frames.event(message, snapshot=True) for message in found if message is not None]

    def newest(self, channel: str, series: str) -> Message | None:
        """The newest message of a series."""
        return self._newest.get((channel, series))

    def accept(self, messages: Sequence[Message]) -> None:
        """Deliver what pub/sub brought; a hole in a series becomes a gap, what is old or repeated is left out."""
        metrics.EVENTS.labels("live").inc(len(messages))
        ready: dict[str, list[Frame]] = {}
        for message in messages:
            made = self._placed(message)
            if made:
                ready.setdefault(message.channel, []).extend(made)
        self._spread(ready)

    def remember(self, message: Message) -> None:
        """Keep a message as the newest of its series without delivering it."""
        place = _place(message.position)
        key = (message.channel, message.series)
        if place is not None:
            self._keep(self._places, key, place)
        self._keep(self._newest, key, message)

    def accept_candles(self, candles: Sequence[Candle], *, live: bool = True) -> None:
        """Deliver candles of the bus, whose order and completeness the bus vouches for."""
        metrics.EVENTS.labels("candle").inc(len(candles))
        ready: dict[str, list[Frame]] = {}
        for candle in candles:
            message = message_of(candle)
            self._keep_candle(candle, message)
            if live and message.channel in self._groups:
                made = frames.event(message, snapshot=not candle.closed)
                ready.setdefault(message.channel, []).append(made)
        self._spread(ready)

    def note_epoch(self, provider: str, epoch: int) -> None:
        """A feed is in this epoch: known before anyone watched."""
        self._epochs[provider] = max(self._epochs.get(provider, 0), epoch)

    def accept_mark(self, mark: Mark) -> None:
        """Tell everyone who watches the feed of the hole that it speaks of."""
        before = self._epochs.get(mark.provider, 0)
        self.note_epoch(mark.provider, mark.epoch)
        if mark.from_ms >= mark.to_ms:
            return
        changed = bool(before) and mark.epoch != before
        reason = TRIMMED if mark.cause == TRIMMED else "failover" if changed else "upstream"
        prefix = f"{PREFIX}{mark.provider}:"
        wanted = [str(Channel(mark.provider, mark.coin))] if mark.coin else list(self._groups)
        for channel in wanted:
            if channel.startswith(prefix) and channel in self._groups:
                self.deliver(channel, self._marked(channel, mark, reason))

    def deliver_gap(self, series_prefix: str, reason: str) -> None:
        """Tell all who get such series that some of it was lost, nobody knows what."""
        for channel, groups in list(self._groups.items()):
            names = sorted({name for types in groups for name in types if name.startswith(series_prefix)})
            self.deliver(channel, [frames.gap(channel, name, reason) for name in names])
            metrics.GAPS.labels(reason).inc(len(names))

    def deliver(self, channel: str, made: list[Frame]) -> None:
        """Hand frames of one channel to each group of sessions that wants some of them."""
        delivered = 0
        for batch, sinks in self._batches(channel, made):
            for sink in sinks:
                sink.deliver(batch)
            delivered += len(batch.frames) * len(sinks)
        metrics.DELIVERED.inc(delivered)

    def _spread(self, ready: Mapping[str, list[Frame]]) -> None:
        """Hand over frames of several channels at once: sessions that get the same share the joined bytes."""
        if len(ready) <= 1:
            for channel, made in ready.items():
                self.deliver(channel, made)
            return
        shares: dict[Sink, list[Batch]] = {}
        delivered = 0
        for channel, made in ready.items():
            for batch, sinks in self._batches(channel, made):
                for sink in sinks:
                    shares.setdefault(sink, []).append(batch)
                delivered += len(batch.frames) * len(sinks)
        joined: dict[tuple[int, ...], Batch] = {}
        for sink, batches in shares.items():
            # Batches are shared by the sessions of a group, so the same ones make the same whole.
            same = tuple(map(id, batches))
            whole = joined.get(same)
            if whole is None:
                whole = joined[same] = frames.join(batches)
            sink.deliver(whole)
        metrics.DELIVERED.inc(delivered)

    def _batches(self, channel: str, made: list[Frame]) -> list[tuple[Batch, list[Sink]]]:
        """What each group of sessions gets; in copies, as a sink that is too slow leaves while it is served."""
        found = []
        for types, sinks in self._groups.get(channel, {}).items():
            wanted = [frame for frame in made if frame.series in types]
            if wanted:
                found.append((Batch(wanted), list(sinks)))
        return found

    def _placed(self, message: Message) -> list[Frame]:
        key = (message.channel, message.series)
        place = _place(message.position)
        before: list[Frame] = []
        if place is not None:
            last = self._places.get(key)
            if last is not None and (place.epoch, place.seq) <= (last.epoch, last.seq):
                metrics.SKIPPED.labels("repeated").inc()
                return []
            if last is not None and not place.follows(last):
                before = self._hole(key, last, place)
            self._keep(self._places, key, place)
        self._keep(self._newest, key, message)
        return [*before, frames.event(message)] if message.channel in self._groups else []

    def _hole(self, key: _Key, last: Position, place: Position) -> list[Frame]:
        """What lies between two positions that do not follow each other; a MARK may have told of it already."""
        changed = place.epoch != last.epoch
        provider = key[0].removeprefix(PREFIX).partition(":")[0]
        if changed and place.seq == 1 and self._epochs.get(provider, 0) >= place.epoch:
            return []
        reason = "failover" if changed else "upstream"
        metrics.GAPS.labels(reason).inc()
        to = Position(place.epoch, place.seq - 1, place.event_ts)
        return [frames.gap(*key, reason, after=str(last), to=str(to), from_ms=last.event_ts, to_ms=place.event_ts)]

    def _marked(self, channel: str, mark: Mark, reason: str) -> list[Frame]:
        market = channel.removeprefix(PREFIX).partition(":")[2]
        series = sorted({name for types in self._groups[channel] for name in types})
        metrics.GAPS.labels(reason).inc(len(series))
        return [
            frames.gap(
                channel,
                name,
                reason,
                after=mark.last.get(f"{market}|{name}", ""),
                from_ms=mark.from_ms,
                to_ms=mark.to_ms,
            )
            for name in series
        ]

    def _keep_candle(self, candle: Candle, message: Message) -> None:
        key = (message.channel, message.series)
        order = (candle.start_ts, candle.version)
        if order >= self._candles.get(key, (0, (False, 0, 0))):
            self._keep(self._candles, key, order)
            self._keep(self._newest, key, message)
        if candle.epoch:
            self._keep(self._places, key, candle.position)

    @staticmethod
    def _keep(table: dict[_Key, _T], key: _Key, value: _T) -> None:
        """Set it; of too many series the one that came first is forgotten."""
        if key not in table and len(table) >= SERIES_MAX:
            del table[next(iter(table))]
        table[key] = value


def message_of(event: MarketEvent) -> Message:
    """An event of the bus as the message that pub/sub carries."""
    position = str(event.position) if event.epoch else ""
    return Message(str(event.channel), event.series, position, msgspec.json.encode(codec.encode(event)))


def _place(position: str) -> Position | None:
    """The place of an event, if it has one: epoch 0 is no place."""
    if not position or position.startswith("0."):
        return None
    try:
        return Position.parse(position)
    except BadInput:
        return None
