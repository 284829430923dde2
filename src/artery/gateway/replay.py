"""Going back in time for one client: the past from the lake and the bus, then what came meanwhile, then live."""

import asyncio
import time
from collections import deque

from artery.errors import ArteryError, BadInput, TooMuch
from artery.gateway import frames, metrics
from artery.gateway.frames import Batch, Frame, Since
from artery.gateway.hub import Hub
from artery.gateway.keys import wall_ms
from artery.gateway.limits import Limits
from artery.gateway.marks import Marks, Outage
from artery.gateway.pace import Pace
from artery.gateway.past import Past
from artery.gateway.room import Room
from artery.gateway.session import Watch
from artery.gateway.sessions import TASKS, Connection
from artery.gateway.stitch import Hole, Stitch
from artery.gateway.stretch import Part, Stretch
from artery.gateway.trips import CandleTrip, Start, TradeTrip
from artery.model.channels import Channel
from artery.model.periods import Period
from artery.model.series import Position
from artery.telemetry import logger

_PIECE = 200
_SNAPSHOTS = ("BOOK_TOPN", "MIDS")

_log = logger("gateway")


class Replay:
    """Holds live events of one channel from the moment it is made, and hands them over after the past."""

    def __init__(
        self,
        connection: Connection,
        watch: Watch,
        *,
        hub: Hub,
        past: Past,
        marks: Marks,
        limits: Limits,
    ) -> None:
        self.channel = watch.channel
        self.types = watch.types
        self._connection = connection
        self._since = watch.since or Since()
        self._hub = hub
        self._past = past
        self._marks, self._marks_before = marks, marks.count
        self._limits = limits
        self._market = Channel.parse(watch.channel)
        # Snapshots have no past: they are live from the start.
        self._held: dict[str, deque[Frame]] = {name: deque() for name in self.types if name not in _SNAPSHOTS}
        self._room = connection.room()
        self._pace = Pace(limits.replay_bytes_per_s)
        self._held_bytes = self._sent_bytes = 0
        self._overflow: set[str] = set()
        self._sent: dict[str, Position] = {}
        self._stitches: dict[str, Stitch[Frame]] = {}
        self._told: set[str] = set()
        hub.join(self, self.channel, self.types)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"{TASKS} replay")

    def deliver(self, batch: Batch) -> None:
        """Live events of a series wait here until its past was sent; past the connection's bound the newest stay."""
        through: list[Frame] = []
        for frame in batch.frames:
            held = self._held.get(frame.series)
            if held is None:
                through += self._joined(frame)
            else:
                held.append(frame)
                self._holds(len(frame.wire))
        while self._room.is_full and self._held_bytes:
            self._drop_oldest()
        self._send(through)
        if not self._held:
            self._let_go_when_level()

    def cancel(self) -> None:
        self._hub.leave(self, self.channel, self.types)
        self._task.cancel()
        self._room.held_bytes -= self._held_bytes
        self._room = Room(self._limits)  # a last turn of this one counts no more

    async def _run(self) -> None:
        snapshots = [name for name in sorted(self.types) if name in _SNAPSHOTS]
        self._send(self._hub.snapshots(self.channel, snapshots))
        for series in snapshots:
            if self._wants(series):
                self._complete(series, self._hub.place(self.channel, series))
        async with self._room.turns:
            for series in sorted(self._held):
                if self._wants(series):
                    await self._replay(series)
        for series in sorted(self._held):
            await self._hand_over(series)
        self._let_go_when_level()

    async def _replay(self, series: str) -> None:
        start = Start.of((self._since.positions or {}).get(series), self._since.ms, wall_ms())
        self._stitches[series] = Stitch(start.after)
        self._sent[series] = start.after or Position(0, 0, start.ms)
        try:
            await self._tell(series, await self._marks.told(self._market, start.ms, self._marks_before))
            await (self._trades(start) if series == "TRADE" else self._candles(series, start))
        except ArteryError as error:
            _log.info("a replay ended early", error=str(error))
            self._give_up(series, more=isinstance(error, TooMuch))
        except Exception as error:  # whatever it is, the client is told of a hole and gets what is live
            _log.error("a replay failed", channel=self.channel, series=series, error=f"{type(error).__name__}: {error}")
            self._give_up(series, more=False)
        else:
            if start.after is not None:
                self._judge(series, start.after)
        await self._hand_over(series)
        self._complete(series, self._stitches[series].last)

    async def _trades(self, start: Start) -> None:
        trip = TradeTrip(self._past, (self._market.provider, self._market.market), start)
        self._stitches["TRADE"] = trip.stitch
        async for found in trip.run():
            if isinstance(found, Part):
                await self._write("TRADE", found)
            else:
                self._send([self._gap("TRADE", found)])

    async def _candles(self, series: str, start: Start) -> None:
        period = Period.parse(series.partition(":")[2])
        trip = CandleTrip(self._past, (self._market.provider, self._market.market), period, start)
        try:
            async for found in trip.run():
                if isinstance(found, Part):
                    await self._write(series, found)
                else:
                    metrics.GAPS.labels("trimmed").inc()
                    self._send([frames.gap(self.channel, series, "trimmed", from_ms=found.after.event_ts)])
        except TooMuch:
            if not self._sent[series].epoch:
                await self._revised(series, trip.revised(self._sent[series].event_ts))
            raise
        finally:
            self._stitches[series].seen = trip.seen
        self._stitches[series].last = trip.last

    async def _revised(self, series: str, stretch: Stretch) -> None:
        """The next replay begins behind these candles, so that newer versions of them come in this one."""
        if len(stretch):
            if not await self._connection.writable():
                raise asyncio.CancelledError
            self._send([Frame(self.channel, series, "", stretch.wire)])

    async def _write(self, series: str, part: Part) -> None:
        """Send some of the past, as fast as the client reads and within the bounds of one replay."""
        stretch, low = part.stretch, part.low
        while low < part.high:
            left = self._limits.replay_bytes - self._sent_bytes
            high = stretch.fits(low, part.high, min(left, self._limits.replay_pause_bytes))
            wire = stretch.bytes_of(low, high)
            self._sent_bytes += len(wire)
            if len(wire) > left:
                raise TooMuch(f"a replay may have {self._limits.replay_bytes} bytes; go on from where it ended")
            if not await self._connection.writable():
                raise asyncio.CancelledError
            last = stretch.place(high - 1)
            self._send([Frame(self.channel, series, str(last) if last.epoch else "", wire)])
            self._sent[series] = last if last.epoch else Position(0, 0, int(stretch.moments[high - 1]))
            metrics.REPLAYED.inc(high - low)
            low = high
            # One piece a turn, and turns without one: live sessions come in between.
            await asyncio.sleep(self._pace.wait_s(len(wire), time.monotonic()))

    async def _hand_over(self, series: str) -> None:
        """Pass on what was held of a series; what comes from now on goes straight through."""
        while True:
            if not await self._connection.writable():
                raise asyncio.CancelledError
            held = self._held[series]
            if len(held) <= _PIECE:
                break
            piece = [held.popleft() for _ in range(_PIECE)]
            self._holds(-sum(len(frame.wire) for frame in piece))
            self._send([made for frame in piece for made in self._joined(frame)])
        held = self._held.pop(series)
        self._holds(-sum(len(frame.wire) for frame in held))
        self._send([made for frame in held for made in self._joined(frame)])

    def _holds(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        self._room.held_bytes += more_bytes

    def _let_go_when_level(self) -> None:
        """The bus may be ahead of live: until live has come as far, what the client has already is left out here."""
        for series, stitch in self._stitches.items():
            place = self._hub.place(self.channel, series)
            if stitch.last is not None and (place is None or place < stitch.last):
                return
        self._hub.leave(self, self.channel, self.types)
        self._connection.caught_up(self)

    def _joined(self, frame: Frame) -> list[Frame]:
        """A live frame, unless the client has it from the past, and the hole in front of it, if there is one."""
        series = frame.series
        if frame.gap:
            self._told.add(series)
        stitch, position = self._stitches.get(series), _position(frame)
        if stitch is not None and position is not None and series == "TRADE" and not frame.gap:
            made = [each for item in stitch.take(position, frame) for each in self._placed(series, item)]
            self._overflow.discard(series)
            return made
        before = [self._slow(series)] if series in self._overflow else []
        self._overflow.discard(series)
        if stitch is None or position is None:
            return [*before, frame]
        # Of candles the past has only the newest of each, so their positions jump without anything missing.
        if stitch.last is not None and position <= stitch.last:
            return before
        stitch.last = position
        return [*before, frame]

    def _placed(self, series: str, item: Hole | Frame) -> list[Frame]:
        if isinstance(item, Frame):
            return [item]
        if item.turn and series in self._told:  # the feed's own mark has said it
            self._told.discard(series)
            return []
        return [self._gap(series, item)]

    def _drop_oldest(self) -> None:
        """Of all that is held, what the longest series has held longest makes room."""
        series = max(self._held, key=lambda name: len(self._held[name]))
        self._holds(-len(self._held[series].popleft().wire))
        self._overflow.add(series)

    def _judge(self, series: str, after: Position) -> None:
        """A client may say that it is where neither the log nor live has come: another log gave it that place."""
        stitch, place = self._stitches[series], self._hub.place(self.channel, series)
        if not stitch.is_ahead or (place is not None and stitch.last is not None and place >= stitch.last):
            return
        if series != "TRADE" and stitch.seen is None and place is None:
            stitch.leap(None)  # the lake's candles have no place: nobody can tell, so whatever is live comes through
            return
        self._sent[series] = after
        self._give_up(series, more=False, ahead=True)

    def _give_up(self, series: str, *, more: bool, ahead: bool = False) -> None:
        """Say what is left out: all between the last event sent and the first that is held, or where live is now."""
        held = next((position for frame in self._held[series] if (position := _position(frame))), None)
        to = Position(held.epoch, held.seq - 1, held.event_ts) if held else self._hub.place(self.channel, series)
        sent = self._sent[series]
        known = sent if sent.epoch and not ahead else None
        if to is None or to > sent or ahead:
            self._send([self._left_out(series, sent, to or known, more=more)])
        # The bus may have been ahead of live: what the client has already must not come to it again.
        self._stitches[series].leap(max(filter(None, (to, known)), default=None))

    def _left_out(self, series: str, sent: Position, to: Position | None, *, more: bool) -> Frame:
        metrics.GAPS.labels("trimmed").inc()
        payload: dict[str, str | int] = {
            "type": "gap",
            "channel": self.channel,
            "series": series,
            "from": str(sent),
            "to": str(to) if to else "",
            "from_ms": sent.event_ts,
            "to_ms": to.event_ts if to else 0,
            "reason": "trimmed",
        }
        if more:
            payload["resume"] = str(sent)
        return Frame(self.channel, series, str(payload["to"]), frames.text(frames.encode(payload)), gap=True)

    def _complete(self, series: str, last: Position | None) -> None:
        position = str(last) if last and last.epoch else ""
        payload = frames.reply("replay_complete", None, channel=self.channel, series=series, position=position)
        self._send([Frame(self.channel, series, "", frames.text(payload))])

    def _gap(self, series: str, hole: Hole) -> Frame:
        reason = "failover" if hole.turn else "slow_client" if series in self._overflow else "trimmed"
        metrics.GAPS.labels(reason).inc()
        return frames.gap(
            self.channel,
            series,
            reason,
            after=str(hole.after),
            to=str(hole.to),
            from_ms=hole.after.event_ts,
            to_ms=hole.to.event_ts,
        )

    def _slow(self, series: str) -> Frame:
        metrics.GAPS.labels("slow_client").inc()
        return frames.gap(self.channel, series, "slow_client")

    async def _tell(self, series: str, outages: list[Outage]) -> None:
        """Holes of the feed come first: a change of leaders is said once more at its place."""
        if not outages:
            return
        if not await self._connection.writable():
            raise asyncio.CancelledError
        made = [frames.gap(self.channel, series, o.reason, from_ms=o.from_ms, to_ms=o.to_ms) for o in outages]
        for outage in outages:
            metrics.GAPS.labels(outage.reason).inc()
        self._send([Frame(self.channel, series, "", b"".join(frame.wire for frame in made), gap=True)])

    def _wants(self, series: str) -> bool:
        return self._since.ms is not None or series in (self._since.positions or {})

    def _send(self, made: list[Frame]) -> None:
        if made:
            self._connection.deliver(Batch(made))


def _position(frame: Frame) -> Position | None:
    try:
        return Position.parse(frame.position)
    except BadInput:
        return None
