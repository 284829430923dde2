"""The one loop that a consumer of a stream needs."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from artery import crash
from artery.bus.base import START, Bus, Entry
from artery.errors import ArteryError, BadEvent, PositionLost
from artery.telemetry import counter, logger

_log = logger("bus")
_dead = counter("bus_dead_letters", "entries given up", "stream", "group")
_lost = counter("bus_read_losses", "times that a group found its next entries gone", "stream", "group")

REFUSED_MAX = 1_000
"""Entries that a consumer keeps for another try; one that finds no room stays pending, and counts by deliveries."""

Handle = Callable[[Entry], Awaitable[None]]


class Pace(msgspec.Struct, frozen=True):
    """How a consumer goes about it."""

    page: int = 100
    """Entries asked for at once."""
    wait_ms: int = 1_000
    """How long one read waits for the first entry."""
    tries_max: int = 5
    """An entry that its handler has refused this often is given up."""
    given_max: int = 20
    """So is one that was given out this often and never done: it may kill whoever takes it."""
    retry_s: float = 0.5
    """Before the first retry of a refused entry; doubles with each refusal."""
    retry_max_s: float = 30.0
    idle_ms: int = 30_000
    """What another consumer has held for longer is taken over: three times the longest that handling may take."""


async def consume(
    bus: Bus, stream: str, group: str, consumer: str, handle: Handle, *, start: str = START, pace: Pace | None = None
) -> None:
    """Hand every entry to `handle`, for ever: what this consumer left over first, then what the dead left, then new.

    An entry is acked once `handle` has returned, so it must bear seeing one twice. If it raises, the entry is tried
    again while others go on, and given up (moved to `dead`) after `tries_max`; at once if it raises `BadEvent`. If it
    raises something temporary, what it needs is away: the same entry is tried until it is back. A new group begins
    after `start`.
    """
    await _Consumer(bus, stream, group, consumer, handle, pace or Pace()).run(start)


class _Refused(NamedTuple):
    """An entry that its handler has refused so often, and when it is tried again."""

    entry: Entry
    times: int
    due: float


class _Consumer:
    def __init__(self, bus: Bus, stream: str, group: str, consumer: str, handle: Handle, pace: Pace) -> None:
        self._bus, self._stream, self._group, self._name = bus, stream, group, consumer
        self._handle, self._pace = handle, pace
        self._own_at: float | None = 0.0  # so that what was left over comes first
        self._claim_at = 0.0
        self._refused: dict[str, _Refused] = {}

    async def run(self, start: str) -> None:
        pauses = 0
        ready = False
        while True:
            try:
                if not ready:
                    await self._bus.ensure_group(self._stream, self._group, start)
                    ready = True
                await self._turn()
                pauses = 0
            except PositionLost as lost:  # said once by whichever call meets it, and the group goes on behind it
                _lost.labels(self._stream, self._group).inc()
                _log.warning("entries were lost before they were read, going on", error=str(lost))
                self._own_at = 0.0
            except ArteryError as error:
                if not error.temporary:
                    raise
                _log.warning("the bus is away, trying again", stream=self._stream, error=str(error))
                self._own_at = 0.0  # what was given and not handled is pending now
                await self._pause(pauses)
                pauses += 1

    async def _turn(self) -> None:
        now = time.monotonic()
        claiming = now >= self._claim_at
        await self._retry(now)
        # What this name left over may come to it late: on Kafka once the broker has missed the process that died.
        if claiming if self._own_at is None else now >= self._own_at:
            self._own_at = None
            await self._own()
        if claiming:
            await self._claim()
            self._claim_at = time.monotonic() + self._pace.idle_ms / 3_000 * random.uniform(0.8, 1.2)
        await self._new()

    async def _retry(self, now: float) -> None:
        """Try those again that are due. They are at hand, so that no other's deliveries are counted up by it."""
        for refused in [refused for refused in self._refused.values() if refused.due <= now]:
            done: list[str] = []
            try:
                await self._one(refused.entry, done)
            finally:
                await self._ack(done)

    async def _own(self) -> None:
        after = START
        while page := await self._bus.read_pending(self._stream, self._group, self._name, after, self._pace.page):
            await self._work(page)
            after = page[-1].id

    async def _claim(self) -> None:
        while page := await self._bus.claim(self._stream, self._group, self._name, self._pace.idle_ms, self._pace.page):
            _log.info("took over what another consumer left", stream=self._stream, group=self._group, entries=len(page))
            await self._work(page)

    async def _new(self) -> None:
        wait_ms = self._pace.wait_ms
        if times := [refused.due for refused in self._refused.values()]:
            wait_ms = min(wait_ms, max(0, int((min(times) - time.monotonic()) * 1_000) + 1))
        await self._work(await self._bus.read_new(self._stream, self._group, self._name, self._pace.page, wait_ms))

    async def _work(self, page: Sequence[Entry]) -> None:
        """Handle a page in order and ack what is done, also when stopped half way."""
        done: list[str] = []
        try:
            for entry in page:
                if entry.id not in self._refused:  # those have a time of their own
                    await self._one(entry, done)
        finally:
            await self._ack(done)

    async def _one(self, entry: Entry, done: list[str]) -> None:
        pauses = 0
        while True:
            try:
                await self._try(entry)
                done.append(entry.id)
                self._refused.pop(entry.id, None)
                return
            except BadEvent as error:
                await self._give_up(entry, str(error))
                return
            except Exception as error:
                if not isinstance(error, ArteryError) or not error.temporary:
                    await self._refuse(entry, error)
                    return
                _log.warning("handling must wait", stream=self._stream, group=self._group, error=str(error))
            await self._ack(done)
            await self._pause(pauses)
            pauses += 1

    async def _try(self, entry: Entry) -> None:
        if not entry.fields:
            raise BadEvent("the entry was trimmed before it was handled")
        if entry.tries > self._pace.given_max:
            raise BadEvent(f"given out {entry.tries} times and never done")
        await self._handle(entry)

    async def _refuse(self, entry: Entry, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")
        known = self._refused.get(entry.id)
        room = known is not None or len(self._refused) < REFUSED_MAX
        times = (known.times if known else 0) + 1 if room else entry.tries
        if times >= self._pace.tries_max:
            await self._give_up(entry, reason)
            return
        _log.warning("handling failed", stream=self._stream, id=entry.id, times=times, error=reason)
        if room:
            wait_s = min(self._pace.retry_max_s, self._pace.retry_s * 2 ** (times - 1))
            again = msgspec.structs.replace(entry, tries=entry.tries + 1)
            self._refused[entry.id] = _Refused(again, times, time.monotonic() + wait_s)

    async def _give_up(self, entry: Entry, reason: str) -> None:
        crash.point("bus.refused")
        await self._bus.dead_letter(self._stream, self._group, entry, reason)
        self._refused.pop(entry.id, None)
        crash.point("bus.buried")
        _dead.labels(self._stream, self._group).inc()
        _log.warning("gave an entry up", stream=self._stream, group=self._group, id=entry.id, error=reason)

    async def _ack(self, done: list[str]) -> None:
        if done:
            ids = list(done)
            done.clear()
            crash.point("bus.handled")
            await self._bus.ack(self._stream, self._group, ids)

    async def _pause(self, before: int) -> None:
        longest = min(self._pace.retry_max_s, self._pace.retry_s * 2 ** min(before, 10))
        await asyncio.sleep(longest * random.uniform(0.5, 1.0))
