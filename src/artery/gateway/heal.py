"""Between pub/sub and the hub: what pub/sub lost of a series is read from the bus before what follows is seen."""

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from artery.bus.base import Entry
from artery.errors import ArteryError, BadInput, PositionLost, Unavailable
from artery.gateway import frames, metrics
from artery.gateway.hub import SERIES_MAX, Hub
from artery.gateway.past import Market, Past, position_of
from artery.live.base import Message
from artery.model.channels import Channel
from artery.model.series import Position
from artery.telemetry import counter, logger

STREAMS = {"TRADE": "trade", "BOOK_TOPN": "book"}
"""The series that are on the bus, and the stream that keeps each. The others have nothing to heal from."""

_PIECE = 128
_NEAR_MS, _FAR_MS = 2_000, 60_000
_AUDIT, _AUDIT_PAGES = 2_000, 10

HEALED = counter("gateway_healed", "Events that pub/sub lost and that came from the bus, by series.", "series")
UNHEALED = counter("gateway_unhealed", "Holes that could not be filled in time, by series.", "series")

_log = logger("gateway")

_Key = tuple[str, str]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How long a series may wait for what is missing, and with how many events."""

    wait_s: float = 3.0
    held_events: int = 5_000
    held_series: int = 2_000
    audit_s: float = 2.0


class _Wound:
    """A series with a hole: the last event before it, where the bus is known to be whole, and what waits behind."""

    __slots__ = ("after", "held", "last", "task")

    def __init__(self, last: Position, after: str, held: list[Message]) -> None:
        self.last = last
        self.after = after
        self.held = held
        self.task: asyncio.Task[None] | None = None


class Healer:
    """Give it what pub/sub brings. Only the series with a hole waits; all others go on to the hub at once."""

    def __init__(self, hub: Hub, past: Past, bounds: Bounds = Bounds()) -> None:  # noqa: B008 (frozen)
        self._hub = hub
        self._past = past
        self._bounds = bounds
        self._last: dict[_Key, tuple[str, int, str]] = {}
        self._wounds: dict[_Key, _Wound] = {}
        self._compared: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, messages: Sequence[Message]) -> None:
        """Pass on what follows on what was passed on before; hold what does not until the bus has been asked."""
        ready: list[Message] = []
        for message in messages:
            if self._passes(message):
                ready.append(message)
        if ready:
            self._hub.accept(ready)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def audit(self) -> None:
        """For ever: what the bus has and pub/sub never brought is found too, though nothing follows it."""
        heads: dict[str, str] = {}
        for stream in STREAMS.values():
            await self._written(stream, heads)
        while True:
            await asyncio.sleep(self._bounds.audit_s * random.uniform(0.8, 1.0))
            ends = {stream: await self._written(stream, heads) for stream in STREAMS.values()}
            await asyncio.sleep(self._bounds.audit_s / 2)  # what was on its way through pub/sub has arrived by then
            for series, stream in STREAMS.items():
                found = ends[stream]
                if found is not None:
                    self._compare(series, found)
                    self._compared[stream] = heads[stream]

    def compared(self, stream: str) -> str:
        """Up to where the bus was compared with what was passed on; empty before the first time."""
        return self._compared.get(stream, "")

    # Following each series

    def _passes(self, message: Message) -> bool:
        key = (message.channel, message.series)
        if message.series not in STREAMS or not message.position:
            return True
        wound = self._wounds.get(key)
        if wound is not None:
            self._hold(key, wound, message)
            return False
        last = self._last.get(key)
        if last is not None and message.position.startswith(f"{last[0]}.{last[1] + 1}."):
            self._last[key] = (last[0], last[1] + 1, message.position)
            return True
        return self._odd(key, message)

    def _odd(self, key: _Key, message: Message) -> bool:
        """The series was not seen before, or a message repeats, jumps, or begins a new epoch."""
        position = _position(message.position)
        if position is None:
            return True
        known = self._known(key)
        old = known is not None and (position.epoch, position.seq) <= (known.epoch, known.seq)
        if known is None or old or position.follows(known) or not self._is_watched(key[0]):
            if not old:
                self._note(key, position)
            return True
        self._wound(key, known, [message])
        return False

    def _known(self, key: _Key) -> Position | None:
        """Where a series stands, those events included that are just being passed on."""
        here, passed = self._hub.place(*key), self._last.get(key)
        last = _position(passed[2]) if passed else None
        return last if last is not None and (here is None or last > here) else here

    def _is_watched(self, channel: str) -> bool:
        """Whether anyone would see the hole."""
        return self._hub.subscribers(channel) > 0 and len(self._wounds) < self._bounds.held_series

    def _note(self, key: _Key, position: Position) -> None:
        if key not in self._last and len(self._last) >= SERIES_MAX:
            del self._last[next(iter(self._last))]
        self._last[key] = (str(position.epoch), position.seq, str(position))

    def _hold(self, key: _Key, wound: _Wound, message: Message) -> None:
        wound.held.append(message)
        if len(wound.held) > self._bounds.held_events and wound.task is not None:
            wound.task.cancel()
            wound.task = None
            self._start(self._give_up(key, wound))

    # Filling a hole

    def _wound(self, key: _Key, last: Position, held: list[Message]) -> None:
        wound = self._wounds[key] = _Wound(last, self.compared(STREAMS[key[1]]), held)
        wound.task = self._start(self._heal(key, wound))

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _heal(self, key: _Key, wound: _Wound) -> None:
        try:
            async with asyncio.timeout(self._bounds.wait_s):
                found = await self._missing(key, wound)
        except (ArteryError, TimeoutError) as error:
            words = str(error) or "it took too long"
            _log.warning("what pub/sub lost could not be read", channel=key[0], series=key[1], error=words)
            await self._give_up(key, wound)
            return
        HEALED.labels(key[1]).inc(len(found))
        wound.task = None
        await self._release(key, wound, found)

    async def _give_up(self, key: _Key, wound: _Wound) -> None:
        """Pass on what has waited as it is: the hub says what is missing."""
        UNHEALED.labels(key[1]).inc()
        wound.task = None
        self._say(key, wound)
        await self._release(key, wound, list(wound.held))

    async def _missing(self, key: _Key, wound: _Wound) -> list[Message]:
        """Everything that the bus has behind the last event; `ArteryError` if that cannot be known."""
        channel = Channel.parse(key[0])
        market, stream = (channel.provider, channel.market), STREAMS[key[1]]
        if wound.after:  # up to here the bus was compared with what was passed on
            with contextlib.suppress(PositionLost):
                return (await self._behind(market, stream, wound.last, wound.after))[0]
        for before_ms in (_NEAR_MS, _FAR_MS):
            after = await self._past.find(stream, wound.last.event_ts - before_ms)
            found, reaches_back = await self._behind(market, stream, wound.last, after)
            if reaches_back or _follow(wound.last, found):
                return found
        raise Unavailable("the bus does not reach back to the last event that was passed on")

    async def _behind(self, market: Market, stream: str, last: Position, after: str) -> tuple[list[Message], bool]:
        """The market's events behind the last one, and whether that one, or an older, was among those read."""
        reaches_back = False
        found: list[Message] = []
        async for page in self._past.pages(stream, after, await self._past.bus.head(stream)):
            for at, message in page.messages(market):
                if (at.epoch, at.seq) <= (last.epoch, last.seq):
                    reaches_back = True
                else:
                    found.append(message)
            await asyncio.sleep(0)
        return found, reaches_back

    async def _release(self, key: _Key, wound: _Wound, found: list[Message]) -> None:
        """Pass on what was found, in pieces; what has waited meanwhile follows on it, or has a hole of its own."""
        for at in range(0, len(found), _PIECE):
            self._hub.accept(found[at : at + _PIECE])
            await asyncio.sleep(0)
        here = self._hub.place(*key)
        if here is not None:
            self._note(key, here)
        del self._wounds[key]
        self.accept([message for message in wound.held if _is_behind(message, here)])

    def _say(self, key: _Key, wound: _Wound) -> None:
        """A change of leaders hides what is missing before it: the hub would take it for whole."""
        first, last = _position(wound.held[0].position) if wound.held else None, wound.last
        if first is None or first.epoch == last.epoch or first.seq != 1:
            return  # the hub sees the jump itself
        to = Position(first.epoch, 0, first.event_ts)
        metrics.GAPS.labels("upstream").inc()
        gap = frames.gap(
            *key, "upstream", after=str(last), to=str(to), from_ms=last.event_ts, to_ms=first.event_ts
        )  # fmt: skip
        self._hub.deliver(key[0], [gap])

    # What nothing follows

    async def _written(self, stream: str, heads: dict[str, str]) -> dict[Market, tuple[Position, Position]] | None:
        """The first and the last place of each market written since the last look; None if not all could be read."""
        found: dict[Market, tuple[Position, Position]] = {}
        try:
            if stream not in heads:
                heads[stream] = await self._past.bus.head(stream)
                return None
            for _ in range(_AUDIT_PAGES):
                page = await self._past.bus.read(stream, heads[stream], _AUDIT)
                _note_ends(page, found)
                heads[stream] = page[-1].id if page else heads[stream]
                if len(page) < _AUDIT:
                    return found
            heads[stream] = await self._past.bus.head(stream)
        except PositionLost as lost:
            heads[stream] = lost.first
        except ArteryError as error:
            _log.warning("the bus could not be compared with pub/sub", stream=stream, error=str(error))
        return None

    def _compare(self, series: str, ends: Mapping[Market, tuple[Position, Position]]) -> None:
        for market, (first, last) in ends.items():
            key = (str(Channel(*market)), series)
            known = self._hub.place(*key)
            if known is not None and (known.epoch, known.seq) >= (last.epoch, last.seq):
                continue
            if key not in self._wounds and self._is_watched(key[0]):
                self._wound(key, known or Position(first.epoch, first.seq - 1, first.event_ts), [])


def _note_ends(page: Sequence[Entry], ends: dict[Market, tuple[Position, Position]]) -> None:
    for entry in page:
        position = position_of(entry.fields)
        if position is not None:
            market = (entry.fields.get("provider", ""), entry.fields.get("coin", ""))
            ends[market] = (ends[market][0] if market in ends else position, position)


def _is_behind(message: Message, here: Position | None) -> bool:
    position = _position(message.position)
    return here is None or position is None or (position.epoch, position.seq) > (here.epoch, here.seq)


def _position(text: str) -> Position | None:
    try:
        found = Position.parse(text)
    except BadInput:
        return None
    return found if found.epoch else None


def _follow(last: Position, found: Sequence[Message]) -> bool:
    first = _position(found[0].position) if found else None
    return first is not None and first.follows(last)
