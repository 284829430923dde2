"""One series on its way from then to now: the lake, then the bus up to its head, joined by the stitch."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from artery.bus.base import START, Entry, place
from artery.errors import ArteryError, PositionLost, Unavailable
from artery.gateway import frames
from artery.gateway.hub import message_of
from artery.gateway.past import BEFORE_MS, Market, Past, Plan
from artery.gateway.stitch import Hole, Stitch
from artery.gateway.stretch import Part, Stretch, in_order, merged, stretch_of
from artery.model import codec
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.series import Position
from artery.telemetry import logger

NEAR_MS = 120_000
"""What is younger is read from the bus alone: the lake commits every ten seconds, and few pages are quick."""

_ROUNDS = 8
_PIECE = 200
_SKEW_MS = 60_000
"""How far the clocks of two leaders may differ: so long behind its end a piece of the lake waits for the next."""

_TOO_FAST = "the log is trimmed faster than it can be read: go on from the last event"

_log = logger("gateway")

Found = Hole | Part


class Start(msgspec.Struct, frozen=True):
    """Where a series goes on from: behind a place, or from a time."""

    after: Position | None
    ms: int
    is_near: bool

    @staticmethod
    def of(position: str | None, ms: int | None, now_ms: int) -> "Start":
        """A position of epoch 0 is a time: so each series of a request can have its own."""
        found = Position.parse(position) if position else None
        begin_ms = found.event_ts if found else ms or 0
        return Start(found if found and found.epoch else None, begin_ms, now_ms - begin_ms < NEAR_MS)


class TradeTrip:
    """Every trade of a market behind a place or from a time, in order, and a hole wherever something is missing."""

    def __init__(self, past: Past, market: Market, start: Start) -> None:
        self._past = past
        self._market = market
        self._start = start
        self._begun = start.after is not None
        self.stitch: Stitch[frames.Frame] = Stitch(start.after)

    async def run(self) -> AsyncIterator[Found]:
        """Everything up to the head that the bus has when this begins."""
        head = await self._past.bus.head("trade")
        cursor = await self._past.find("trade", self._start.ms - BEFORE_MS)
        deep, lost = not self._start.is_near, None
        for _ in range(_ROUNDS):
            plan = await self._plan() if deep else None
            if plan is not None and place(plan.reached) > place(cursor):
                async for found in self._lake(plan):
                    yield found
                cursor = plan.reached
            elif lost is not None:
                # What the bus has lost behind here is not in the lake either.
                cursor = lost.first
                self.stitch.torn(self._start.ms)
            try:
                async for page in self._past.pages("trade", cursor, head):
                    for found in self._taken(await page.stretch(self._market)):
                        yield found
                    cursor = page.last
                return
            except PositionLost as error:
                deep, lost = True, error
        raise Unavailable(_TOO_FAST)

    async def _plan(self) -> Plan | None:
        """How to read what the lake has behind the last event delivered; None where it cannot be read."""
        last = self.stitch.last
        try:
            start_ms = (last.event_ts if last else self._start.ms) - BEFORE_MS
            return await self._past.trade_plan(self._market, start_ms)
        except ArteryError as error:
            _log.warning("the lake cannot be read for a replay", error=str(error))
            return None

    async def _lake(self, plan: Plan) -> AsyncIterator[Found]:
        """The lake's pieces in order, the next one being read while one is sent."""
        held, low = None, 0
        ahead: asyncio.Task[Stretch] | None = None
        try:
            for number, (_, end_ms) in enumerate(plan.pieces):
                piece = await self._past.trade_piece(self._market, plan, number)
                if number + 1 < len(plan.pieces):
                    ahead = self._past.soon(self._past.trade_piece(self._market, plan, number + 1))
                if held is not None:
                    if in_order(held, low, piece):
                        for found in self._taken(held, low):
                            yield found
                    else:
                        piece = merged(held, low, piece)
                held, low = piece, _ready(piece, end_ms)
                for found in self._taken(piece, 0, low):
                    yield found
        finally:
            if ahead is not None:
                ahead.cancel()
        if held is not None:
            for found in self._taken(held, low):
                yield found

    def _taken(self, stretch: Stretch, low: int = 0, high: int | None = None) -> list[Found]:
        """What of a stretch, from `low` up to `high`, is to be delivered."""
        high = len(stretch) if high is None else high
        if not self._begun:
            low = max(low, stretch.first_at(self._start.ms))
            self._begun = low < high
            if min(low, high) > 0:  # what lies just before the time shows whether something is missing behind it
                self.stitch.last = stretch.place(min(low, high) - 1)
        return self.stitch.take_all(Part(stretch, low, high)) if low < high else []


def _ready(piece: Stretch, end_ms: int) -> int:
    """How many events of a piece of the lake no later piece can come before."""
    late = piece.times >= end_ms - _SKEW_MS
    return int(late.argmax()) if late.any() else len(piece)


class CandleTrip:
    """The newest version of each candle since then: the lake's first, then what the bus has behind it."""

    def __init__(self, past: Past, market: Market, period: Period, start: Start) -> None:
        self._past = past
        self._market = market
        self._period = period
        self._start = start
        self._newest: dict[int, Candle] = {}
        self.last = start.after
        self.seen: Position | None = None
        """The newest place of all that the bus has shown."""

    async def run(self) -> AsyncIterator[Found]:
        """Everything up to the head that the bus has when this begins."""
        head = await self._past.bus.head("candle")
        # From a time on, the candle that holds it counts, which may have been written at any time since its own start.
        begin_ms = self._start.ms if self._start.after else self._period.start(self._start.ms)
        cursor = await self._past.find("candle", begin_ms - BEFORE_MS)
        newest = self._newest
        plan: Plan | None = None
        deep, lost = not self._start.is_near or self._start.ms - begin_ms > NEAR_MS, None
        for _ in range(_ROUNDS):
            plan = await self._plan() if deep else None
            if plan is not None and place(plan.reached) > place(cursor):
                cursor = plan.reached
            elif lost is not None:
                cursor = lost.first
                yield Hole(Position(0, 0, self._start.ms), Position(0, 0, 0))
            try:
                await self._collect(cursor, head, newest)
                break
            except PositionLost as error:
                deep, lost = True, error
        else:
            raise Unavailable(_TOO_FAST)
        if plan is not None:
            async for part in self._older(plan, newest):
                yield part
        fresh = sorted((candle for candle in newest.values() if self._is_new(candle)), key=_by_place)
        if fresh:
            made = [(c.position, c.start_ts, frames.event(message_of(c))) for c in fresh]
            self.last = max(c.position for c in fresh) if fresh[-1].epoch else self.last
            yield Part(stretch_of(made), 0, len(made))

    def revised(self, until_ms: int) -> Stretch:
        """Of candles that start up to this time the versions that only the bus has, for one who goes on behind it.

        They come without a place: that would be behind candles of the lake which are still to come.
        """
        found = [candle for start, candle in sorted(self._newest.items()) if start <= until_ms and self._is_new(candle)]
        messages = [(candle, message_of(candle)) for candle in found]
        return stretch_of(
            [
                (
                    Position(0, 0, candle.event_ts),
                    candle.start_ts,
                    frames.event(msgspec.structs.replace(m, position="")),
                )
                for candle, m in messages
            ]
        )

    @property
    def _updated_ms(self) -> int:
        """Earlier than the place says, as the clock of whoever writes now may be behind that of the writer before."""
        return max(0, self._start.ms - BEFORE_MS) if self._start.after else 0

    async def _plan(self) -> Plan | None:
        """How to read the lake's candles; None where it has none or cannot be read."""
        # By time: from the candle that holds the moment on. Behind a place: whatever was written since.
        start_ms = 0 if self._start.after else self._period.start(self._start.ms)
        try:
            plan = await self._past.candle_plan(self._market, self._period, self._updated_ms, start_ms)
        except ArteryError as error:
            _log.warning("the lake cannot be read for a replay", error=str(error))
            return None
        return plan if place(plan.reached) > place(START) else None

    async def _collect(self, after: str, head: str, newest: dict[int, Candle]) -> None:
        interval = str(self._period)
        async for page in self._past.pages("candle", after, head):
            entries = page.entries(self._market)
            for at in range(0, max(1, len(entries)), _PIECE):
                for entry in entries[at : at + _PIECE]:
                    candle = _candle(entry) if entry.fields.get("interval") == interval else None
                    if candle is not None and candle.epoch:
                        self.seen = max(filter(None, (self.seen, candle.position)))
                    older = newest.get(candle.start_ts) if candle is not None else None
                    if candle is not None and (older is None or candle.version >= older.version):
                        newest[candle.start_ts] = candle
                await asyncio.sleep(0)  # a page that another has read is there at once: live events pass in between

    async def _older(self, plan: Plan, newest: dict[int, Candle]) -> AsyncIterator[Part]:
        newer = {start: candle.version for start, candle in newest.items()}
        for piece in plan.pieces:
            found = await self._past.candle_piece(self._market, self._period, self._updated_ms, piece, newer)
            if len(found):
                yield Part(found, 0, len(found))

    def _is_new(self, candle: Candle) -> bool:
        after = self._start.after
        return candle.position > after if after else candle.end_ts > self._start.ms


def _candle(entry: Entry) -> Candle | None:
    try:
        event = codec.decode(entry.fields, entry_id=entry.id)
    except ArteryError:
        return None
    return event if isinstance(event, Candle) else None


def _by_place(candle: Candle) -> tuple[int, int, int]:
    return (candle.epoch, candle.seq, candle.start_ts)
