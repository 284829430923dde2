"""Going back in time for one client: the past from the bus and the lake, then what came meanwhile, then live."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from artery.bus.base import Bus, Entry, place
from artery.errors import ArteryError, BadInput, PositionLost, TooMuch
from artery.gateway import frames, metrics
from artery.gateway.frames import Batch, Frame, Since
from artery.gateway.hub import Hub, message_of
from artery.gateway.limits import Limits
from artery.gateway.session import Watch
from artery.gateway.sessions import Connection
from artery.gateway.stitch import Hole, Stitch
from artery.live.base import Message
from artery.model import codec
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.model.series import Position
from artery.telemetry import logger

_PAGE = 1_000
_PIECE = 200
_BEFORE_MS = 60_000
"""How much earlier than an event's own time to look: clocks differ, and entries are written after their time."""

_log = logger("gateway")

OlderTrades = Callable[[str, str, int, int], AsyncIterator[list[Trade]]]
"""(provider, coin, start_ms, end_ms) → the lake's trades in that time, oldest first."""


class Replay:
    """Holds live events of one channel from the moment it is made, and hands them over after the past."""

    def __init__(
        self, connection: Connection, watch: Watch, *, hub: Hub, bus: Bus, older: OlderTrades, limits: Limits
    ) -> None:
        self.channel = watch.channel
        self.types = watch.types
        self._connection = connection
        self._since = watch.since or Since()
        self._hub = hub
        self._bus = bus
        self._older = older
        self._limits = limits
        self._market = Channel.parse(watch.channel)
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._sent_bytes = 0
        self._sent: dict[str, Position] = {}
        self._stitches: dict[str, Stitch[Frame]] = {}
        self._overflow = False
        self._past_done = False
        hub.join(self, self.channel, self.types)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def deliver(self, batch: Batch) -> None:
        """Live events wait here, within the bound; past it the newest are kept and the client is told."""
        if self._past_done:
            self._send(self._stitched(batch.frames))
            self._let_go_when_level()
            return
        self._held.extend(batch.frames)
        self._held_bytes += len(batch.wire)
        while self._held_bytes > self._limits.replay_bytes and self._held:
            self._held_bytes -= len(self._held.pop(0).wire)
            self._overflow = True

    def cancel(self) -> None:
        self._hub.leave(self, self.channel, self.types)
        self._task.cancel()

    async def _run(self) -> None:
        try:
            self._send(
                self._hub.snapshots(self.channel, [name for name in self.types if name in ("BOOK_TOPN", "MIDS")])
            )
            for series in sorted(self.types):
                if series == "TRADE" and self._wants(series):
                    await self._trades()
                elif series.startswith("CANDLE:") and self._wants(series):
                    await self._candles(series)
            await self._hand_over()
        except ArteryError as error:
            _log.info("a replay ended early", error=str(error))
            self._give_up()
            await self._hand_over()

    def _give_up(self) -> None:
        """Say what is left out: all between the last event sent and the first that was held, or where live is now."""
        for series, stitch in sorted(self._stitches.items()):
            held = next((position for f in self._held if f.series == series and (position := _position(f))), None)
            live = self._hub.positions(self.channel, [series]).get(series)
            to = Position(held.epoch, held.seq - 1, held.event_ts) if held else Position.parse(live) if live else None
            sent = self._sent.get(series) or self._after(series) or Position(0, 0, self._since.ms or 0)
            if to is not None and to > sent:
                self._send([_hole(self.channel, series, Hole(sent, to))])
            stitch.last = to or sent

    def _wants(self, series: str) -> bool:
        return self._since.ms is not None or series in (self._since.positions or {})

    async def _trades(self) -> None:
        after = self._after("TRADE")
        self._stitches["TRADE"] = Stitch(after)
        head = await self._bus.head("trade")
        start_ms = after.event_ts if after else self._since.ms or 0
        start = await self._bus.find("trade", max(start_ms - _BEFORE_MS, 0))
        try:
            await self._bus_trades(start, head, start_ms)
        except PositionLost as lost:
            # The bus no longer reaches back so far: the lake does, and a hole between the two shows in the positions.
            await self._lake_trades(start_ms)
            await self._bus_trades(lost.first, head, start_ms)

    async def _lake_trades(self, start_ms: int) -> None:
        """Older than the bus: what the lake holds."""
        async for trades in self._older(self._market.provider, self._market.market, start_ms - _BEFORE_MS, 2**42):
            await self._pass_on("TRADE", [(t.position, message_of(t)) for t in trades if self._young(t.ts, start_ms)])

    async def _bus_trades(self, after: str, head: str, start_ms: int) -> None:
        async for entries in self._pages("trade", after, head):
            found = [
                _trade_message(self.channel, entry.fields)
                for entry in entries
                if entry.fields.get("coin") == self._market.market
                and entry.fields.get("provider") == self._market.provider
                and self._young(_whole(entry.fields.get("ts", "")), start_ms)
            ]
            await self._pass_on("TRADE", [pair for pair in found if pair is not None])

    def _young(self, ts: int, start_ms: int) -> bool:
        return self._since.ms is None or ts >= start_ms

    async def _candles(self, series: str) -> None:
        """The newest revision of each candle since then."""
        after = self._after(series)
        start_ms = after.event_ts if after else self._since.ms or 0
        head = await self._bus.head("candle")
        start = await self._bus.find("candle", max(start_ms - _BEFORE_MS, 0))
        newest: dict[int, Candle] = {}
        try:
            await self._collect(series, start, head, newest)
        except PositionLost as lost:
            self._send([frames.gap(self.channel, series, "trimmed", from_ms=start_ms)])
            await self._collect(series, lost.first, head, newest)
        self._stitches[series] = Stitch(after)
        fresh = [c for c in newest.values() if (after and c.position > after) or (not after and c.end_ts > start_ms)]
        await self._write([frames.event(message_of(candle)) for candle in sorted(fresh, key=_by_place)])
        if fresh:
            self._stitches[series].last = max(candle.position for candle in fresh)
        self._complete(series)

    async def _collect(self, series: str, after: str, head: str, newest: dict[int, Candle]) -> None:
        interval = series.partition(":")[2]
        async for entries in self._pages("candle", after, head):
            for entry in entries:
                fields = entry.fields
                if fields.get("coin") != self._market.market or fields.get("interval") != interval:
                    continue
                candle = _candle(entry)
                if candle is not None and candle.provider == self._market.provider:
                    older = newest.get(candle.start_ts)
                    if older is None or candle.version >= older.version:
                        newest[candle.start_ts] = candle

    async def _pages(self, stream: str, after: str, head: str) -> AsyncIterator[list[Entry]]:
        end = place(head)
        while place(after) < end:
            entries = await self._bus.read(stream, after, _PAGE)
            if not entries:
                return
            after = entries[-1].id
            yield [entry for entry in entries if place(entry.id) <= end]

    def _after(self, series: str) -> Position | None:
        text = (self._since.positions or {}).get(series)
        return Position.parse(text) if text else None

    async def _pass_on(self, series: str, found: list[tuple[Position, Message]]) -> None:
        stitch = self._stitches[series]
        made: list[Frame] = []
        for position, message in found:
            for item in stitch.take(position, frames.event(message)):
                made.append(item if isinstance(item, Frame) else _hole(self.channel, series, item))
        await self._write(made)

    async def _write(self, made: list[Frame]) -> None:
        """Send some of the past, as fast as the client reads and within the bound of one replay."""
        metrics.REPLAYED.inc(len(made))
        for at in range(0, len(made), _PIECE):
            piece = made[at : at + _PIECE]
            self._sent_bytes += sum(len(frame.wire) for frame in piece)
            if self._sent_bytes > self._limits.replay_bytes:
                raise TooMuch(f"a replay may have {self._limits.replay_bytes} bytes; go on from where it ended")
            if not await self._connection.writable():
                return
            self._send(piece)
            self._sent[piece[-1].series] = _position(piece[-1]) or Position(0, 0, 0)
        await asyncio.sleep(0)

    async def _hand_over(self) -> None:
        """Pass on what was held; what comes from now on goes straight through."""
        while len(self._held) > _PIECE:
            held, self._held = self._held, []
            self._held_bytes = 0
            await self._write(self._stitched(held))
        self._send(self._stitched(self._held))
        self._held = []
        self._past_done = True
        if "TRADE" in self._stitches:
            self._complete("TRADE")
        self._let_go_when_level()

    def _let_go_when_level(self) -> None:
        """The bus may be ahead of live: until live has come as far, what the client has already is left out here."""
        for series, stitch in self._stitches.items():
            place = self._hub.place(self.channel, series)
            if stitch.last is not None and (place is None or place < stitch.last):
                return
        self._hub.leave(self, self.channel, self.types)
        self._connection.caught_up(self)

    def _stitched(self, held: list[Frame]) -> list[Frame]:
        made: list[Frame] = []
        if self._overflow:
            self._overflow = False
            made += [frames.gap(self.channel, series, "slow_client") for series in sorted(self.types)]
        for frame in held:
            made += self._joined(frame)
        return made

    def _joined(self, frame: Frame) -> list[Frame]:
        """A live frame, unless the client has it from the past, and the hole in front of it, if there is one."""
        stitch, position = self._stitches.get(frame.series), _position(frame)
        if stitch is None or position is None:
            return [frame]
        if frame.series == "TRADE" and not frame.gap:
            found = stitch.take(position, frame)
            return [item if isinstance(item, Frame) else _hole(self.channel, frame.series, item) for item in found]
        # Of candles the past has only the newest of each, so their positions jump without anything missing.
        if stitch.last is not None and position <= stitch.last:
            return []
        stitch.last = position
        return [frame]

    def _complete(self, series: str) -> None:
        last = self._stitches[series].last
        payload = frames.reply(
            "replay_complete", None, channel=self.channel, series=series, position=str(last) if last else ""
        )
        self._send([Frame(self.channel, series, "", frames.text(payload))])

    def _send(self, made: list[Frame]) -> None:
        if made:
            self._connection.deliver(Batch(made))


def _hole(channel: str, series: str, hole: Hole) -> Frame:
    metrics.GAPS.labels("trimmed").inc()
    return frames.gap(
        channel,
        series,
        "trimmed",
        after=str(hole.after),
        to=str(hole.to),
        from_ms=hole.after.event_ts,
        to_ms=hole.to.event_ts,
    )


def _by_place(candle: Candle) -> tuple[int, int, int]:
    return (candle.epoch, candle.seq, candle.start_ts)


def _position(frame: Frame) -> Position | None:
    try:
        return Position.parse(frame.position)
    except BadInput:
        return None


def _trade_message(channel: str, fields: dict[str, str]) -> tuple[Position, Message] | None:
    """A trade's entry as it was when it was live; a foreign one has no place and is left out."""
    try:
        position = Position(int(fields["epoch"]), int(fields["seq"]), int(fields["eventTs"]))
    except (KeyError, ValueError):
        return None
    return position, Message(channel, "TRADE", str(position), msgspec.json.encode(fields))


def _candle(entry: Entry) -> Candle | None:
    try:
        event = codec.decode(entry.fields, entry_id=entry.id)
    except ArteryError:
        return None
    return event if isinstance(event, Candle) else None


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0
