"""The one writer of a feed: the bus first, then whoever is watching."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from artery import crash
from artery.errors import Unavailable
from artery.ingest import metrics
from artery.ingest.intake import Intake
from artery.ingest.parts import Parts
from artery.ingest.retry import persist
from artery.ingest.turns import Turns
from artery.live.base import Message
from artery.model import codec
from artery.model.events import Book, Mark, Mids, Trade
from artery.telemetry import logger

TURN_EVENTS = 5_000

_log = logger("ingest")


class Appender:
    """Appends under one leader's epoch, waiting out a bus that is away; `trouble` says why it waits."""

    def __init__(self, parts: Parts, epoch: int) -> None:
        self._parts = parts
        self._epoch = epoch
        self.trouble = ""

    async def append(self, stream: str, entries: Sequence[Mapping[str, str]]) -> list[str]:
        """Write all of the entries, once, and return their positions; `Fenced` if a newer leader has written."""
        began = time.perf_counter()
        tried = False

        async def once() -> list[str]:
            nonlocal tried
            if tried and (positions := await self._landed(stream, entries)):
                return positions
            tried = True
            return await self._parts.bus.append(stream, entries, writer=self._parts.provider, epoch=self._epoch)

        positions = await persist(once, "writing to the bus", trouble=self._say_trouble)
        metrics.APPEND_S.labels(stream).observe(time.perf_counter() - began)
        return positions

    async def _landed(self, stream: str, entries: Sequence[Mapping[str, str]]) -> list[str]:
        """Where the entries stand, if the append that seemed to fail was in fact done."""
        count = len(entries)
        newest = await self._parts.bus.read_back(stream, 2 * count + 100)
        for index, entry in enumerate(newest):
            if entry.fields == entries[-1] and index + count <= len(newest):
                return [each.id for each in reversed(newest[index : index + count])]
        return []

    def _say_trouble(self, reason: str) -> None:
        self.trouble = reason


class Writer:
    """Takes what came, writes trades and books, says holes and the clock, for as long as its term lasts."""

    def __init__(
        self,
        parts: Parts,
        turns: Turns,
        intake: Intake,
        appender: Appender,
        *,
        head: str,
        marked: Callable[[Mark], None],
    ) -> None:
        self._parts = parts
        self._turns = turns
        self._intake = intake
        self._appender = appender
        self._up_to = head
        self._marked = marked
        self._conflated = self._unchanged = self._lost = 0
        self._turned = asyncio.Event()

    async def begin(self, last: dict[str, str]) -> None:
        """The leader's first word: what it cannot vouch for."""
        await self._say(self._turns.marks(self._parts.now_ms(), self._up_to, last))

    async def run(self) -> None:
        """One turn after the other, until cancelled or fenced."""
        while True:
            await self._intake.wait(self._pause_s())
            await self.turn()

    async def turn(self) -> None:
        """Write what has come, in as few appends as possible, then say what is to be said."""
        now_ms = self._parts.now_ms()
        self._turns.clock.passed(now_ms, self._parts.steady_ms())
        signals, lost = self._intake.take(TURN_EVENTS), self._intake.take_holes()
        turn = self._turns.turn(signals, lost, now_ms, time.monotonic() * 1_000)
        if turn.trades and turn.books:  # side by side, so that a bus that commits in groups syncs once for both
            await asyncio.gather(self._write("trade", turn.trades), self._write("book", turn.books))
        else:
            await self._write("trade", turn.trades)
            await self._write("book", turn.books)
        await self._publish(turn.mids, [codec.encode(event) for event in turn.mids])
        metrics.REPEATED.inc(turn.repeated)
        self._count()
        await self._say_time(now_ms)
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def said(self) -> None:
        """Wait until everything that is to be said now is on the bus."""
        for _ in range(2):  # the turn that is under way may have passed it
            await self._turned.wait()

    async def _write(self, stream: str, events: Sequence[Trade | Book]) -> None:
        if not events:
            return
        entries = [codec.encode(event) for event in events]
        positions = await self._appender.append(stream, entries)
        if stream == "trade":
            self._up_to = positions[-1]
        crash.point("ingest.appended")
        await self._publish(events, entries)

    async def _publish(self, events: Sequence[Trade | Book | Mids], entries: Sequence[dict[str, str]]) -> None:
        if not events:
            return
        metrics.EVENTS.labels(entries[0]["t"]).inc(len(events))
        try:
            await self._parts.pubsub.publish(
                [message(event, fields) for event, fields in zip(events, entries, strict=True)]
            )
        except Unavailable as error:
            # The events are on the bus: gateways notice the gap and read them there.
            _log.warning("events could not be published; gateways will read them from the bus", reason=str(error))

    async def _say_time(self, now_ms: int) -> None:
        marks = self._turns.marks(now_ms, self._up_to)
        clock = self._turns.tick(now_ms, self._up_to, self._intake.oldest_ms())
        await self._say(marks, [codec.encode(clock)] if clock else [])

    async def _say(self, marks: Sequence[Mark], clock: Sequence[dict[str, str]] = ()) -> None:
        entries = [codec.encode(mark) for mark in marks] + list(clock)
        if not entries:
            return
        await self._appender.append("feed", entries)
        for entry in entries:
            metrics.EVENTS.labels(entry["t"]).inc()
        for mark in marks:
            metrics.HOLES.labels(mark.cause).inc()
            _log.info("a stretch of time is not vouched for", **_shown(mark))
            self._marked(mark)

    def _pause_s(self) -> float:
        due_ms, beat_s = self._turns.throttle.next_ms(), self._parts.pauses.beat_s
        if due_ms is None:
            return beat_s
        return min(beat_s, max(0.0, due_ms / 1_000 - time.monotonic()))

    def _count(self) -> None:
        throttle = self._turns.throttle
        metrics.CONFLATED.inc(throttle.conflated - self._conflated)
        metrics.UNCHANGED.inc(throttle.repeated - self._unchanged)
        metrics.LOST.inc(self._intake.lost - self._lost)
        metrics.QUEUE.set(self._intake.events)
        self._conflated, self._unchanged, self._lost = throttle.conflated, throttle.repeated, self._intake.lost


def message(event: Trade | Book | Mids, fields: dict[str, str]) -> Message:
    """The event as sessions get it, encoded once for all of them."""
    return Message(
        channel=str(event.channel),
        series=event.series,
        position=str(event.position),
        data=msgspec.json.encode(fields),
    )


def _shown(mark: Mark) -> dict[str, object]:
    return {
        "cause": mark.cause,
        "market": mark.coin or "all",
        "seconds": round((mark.to_ms - mark.from_ms) / 1_000, 1),
        "epoch": mark.epoch,
    }
