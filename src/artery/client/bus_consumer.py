"""A consumer of the stream bus: the low-level calls, and the whole loop."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Self

import msgspec

from artery import crash
from artery.bus.base import START, Bus, Entry
from artery.bus.dead import bury
from artery.bus.open import open_bus
from artery.client.bus_fields import KINDS, Event, decode_stream_event, why_not
from artery.errors import ArteryError, BadInput, PositionLost, Unavailable
from artery.telemetry import logger

PAGE = 100
WAIT_MS = 1_000
ACK_EVERY_S = 0.2
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 10.0

_log = logger("client")


class _Turn:
    """What the next round of a loop has to look at besides what is new."""

    ready = False
    own = True
    claim_at = 0.0
    unheard = 0
    """How often what was left over was asked for in vain: the server may count that as tries, and nobody has tried."""


class StreamBusConsumer:
    """One consumer of a group; its name is its own, so that what it left over comes back to it.

    A consumer that left entries unacked for `idle_ms` counts as dead and others take them over: make it three times
    the longest that a page of 100 may take. An entry that was given out `tries_max` times and never acked is given up.
    """

    def __init__(
        self,
        url: str,
        stream_base: str,
        group: str,
        consumer: str,
        *,
        idle_ms: int = 60_000,
        tries_max: int = 5,
    ) -> None:
        self._url, self._base = url, stream_base
        self._group, self._name = group, consumer
        self._idle_ms, self._tries_max = idle_ms, tries_max
        self._open: Bus | None = None
        self._done: dict[str, dict[str, None]] = {}
        self._tries: dict[str, dict[str, int]] = {}
        """How often entries were handed out before, where that is known: what was only read counts as no try."""
        self._turns: dict[str, _Turn] = {}
        self._acked_at = 0.0
        self.losses = 0
        """How often entries had been trimmed before this group was given them; each time is also in the log."""

    async def connect(self) -> None:
        """Open the bus and see that it answers; safe to call again."""
        if self._open is None:
            bus = open_bus(self._url, self._base)
            try:
                await bus.count_after("trade", START)
            except BaseException:
                await bus.close()
                raise
            self._open = bus

    async def close(self) -> None:
        """Ack what the loops have handled, and let go; safe to call again."""
        bus, self._open = self._open, None
        if bus is None:
            return
        try:
            for kind in self._done:
                if ids := self._handled_of(kind):
                    await bus.ack(kind, self._group, ids)
        except ArteryError as error:
            _log.warning("what was handled last could not be acked and will come again", error=str(error))
        finally:
            self._done.clear()
            self._turns.clear()
            await bus.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _bus(self) -> Bus:
        if self._open is None:
            raise Unavailable("the consumer is not connected: await connect() first")
        return self._open

    async def ensure_group(self, kind: str, start: str = START) -> None:
        """Make the group if it does not exist, to be given what follows `start`: everything, unless told otherwise."""
        await self._bus.ensure_group(kind, self._group, start)

    async def read_pending(self, kind: str, count: int = PAGE, after: str = START) -> list[Entry]:
        """What this consumer was given and did not ack, oldest first; counts a try."""
        return await self._bus.read_pending(kind, self._group, self._name, after, count)

    async def read_new(self, kind: str, count: int = PAGE, block_ms: int = 0) -> list[Entry]:
        """What the group was never given, waiting at most `block_ms`. `PositionLost`, once, if some was trimmed."""
        return await self._bus.read_new(kind, self._group, self._name, count, block_ms)

    async def ack(self, kind: str, ids: str | Sequence[str]) -> int:
        """Say that an entry or several are done; return how many of them were pending."""
        return await self._bus.ack(kind, self._group, [ids] if isinstance(ids, str) else ids)

    async def events(self, kind: str, limit: int = 0) -> AsyncIterator[Event]:
        """Every event of a stream, for ever (or `limit` of them): what was left over, what the dead left, then new.

        Asking for the next event says that the last one is done. It is acked with others, at the latest when the loop
        waits, after a moment, or in `close`. If the body raises or breaks off, its event is not done: it stays
        pending and is the first of the next loop. Given out `tries_max` times in vain, it goes to `dead`, as does at
        once what cannot be understood. A server that goes away is waited for. One loop a stream and consumer.
        """
        if kind not in KINDS:
            raise BadInput(f"{kind!r:.40} has no events to loop over; there are {', '.join(KINDS)}")
        given = 0
        async with aclosing(self._entries(kind, min(limit or PAGE, PAGE))) as entries:
            async for entry, event in entries:
                yield event
                await self._handled(kind, entry)
                given += 1
                if given == limit:
                    break
        await self._flush(kind)

    async def _entries(self, kind: str, page: int) -> AsyncGenerator[tuple[Entry, Event], None]:
        """What nobody has done, without end; trouble that passes is waited out."""
        turn, pauses = self._turns.setdefault(kind, _Turn()), 0
        turn.own = True  # the rest is as the loop before left it, so that beginning again costs others little
        while True:
            try:
                if not turn.ready:
                    await self.ensure_group(kind)
                    turn.ready = True
                async for entry in self._round(kind, page, turn):
                    if event := await self._event(kind, entry):
                        yield entry, event
                pauses = 0
            except PositionLost as lost:
                turn.own = True
                self._say_lost(kind, lost)
            except ArteryError as error:
                if not error.temporary or self._open is None:
                    raise
                turn.own = True  # what was given and not heard of is pending now
                await self._pause(kind, pauses, error)
                pauses += 1

    async def _round(self, kind: str, page: int, turn: "_Turn") -> AsyncIterator[Entry]:
        """What was left over, if there may be something; what the dead left, if it is time to look; what is new."""
        claiming = time.monotonic() >= turn.claim_at
        # What this name left over may come to it late: on Kafka once the broker has missed the process that died.
        if turn.own or claiming:
            async for entry in self._own(kind, turn):
                yield entry
            turn.own = False
        if claiming:
            async for entry in self._left(kind):
                yield entry
            turn.claim_at = time.monotonic() + self._idle_ms / 3_000 * random.uniform(0.8, 1.2)
        entries = await self._new(kind, page)
        tries = self._tries[kind] = {entry.id: entry.tries - 1 for entry in entries}
        for entry in entries:
            tries[entry.id] = entry.tries
            yield entry

    async def _pause(self, kind: str, before: int, error: ArteryError) -> None:
        _log.warning("the bus is away, trying again", stream=kind, error=str(error))
        longest = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(before, 10))
        await asyncio.sleep(longest * random.uniform(0.5, 1.0))

    async def _own(self, kind: str, turn: "_Turn") -> AsyncIterator[Entry]:
        """What this consumer left over: one at a time, as each reading counts a try."""
        await self._flush(kind)
        after, known = START, self._tries.setdefault(kind, {})
        while entry := await self._next_own(kind, after, turn):
            after = entry.id
            before = known.get(after)
            tries = max(1, entry.tries - turn.unheard) if before is None else before + 1
            turn.unheard = 0
            if after not in self._done.get(kind, {}):
                known[after] = tries
                yield msgspec.structs.replace(entry, tries=tries)

    async def _next_own(self, kind: str, after: str, turn: "_Turn") -> Entry | None:
        try:
            page = await self.read_pending(kind, 1, after)
        except ArteryError:
            turn.unheard += 1
            raise
        return page[0] if page else None

    async def _left(self, kind: str) -> AsyncIterator[Entry]:
        """What others have left for too long; one at a time, too."""
        while page := await self._bus.claim(kind, self._group, self._name, self._idle_ms, 1):
            _log.info("took over what another consumer left", stream=kind, group=self._group, id=page[0].id)
            yield page[0]

    async def _new(self, kind: str, count: int) -> list[Entry]:
        """The next page; what was handled is acked by the same call, before it waits."""
        handled = self._handled_of(kind)
        self._acked_at = time.monotonic()
        page = await self._bus.read_new(kind, self._group, self._name, count, WAIT_MS, handled)
        self._forget(kind, handled)
        return page

    async def _event(self, kind: str, entry: Entry) -> Event | None:
        """The entry's event; an entry that has none, or was tried too often, is given up."""
        event = decode_stream_event(entry)
        if not entry.fields:
            reason = "the entry was trimmed before it was handled"
        elif event is None:
            reason = why_not(entry)
        elif entry.tries > self._tries_max:
            entry = msgspec.structs.replace(entry, tries=entry.tries - 1)  # this time nobody tries it
            reason = f"given out {entry.tries} times and never done"
        else:
            return event
        await bury(self._bus, kind, self._group, entry, reason)
        self._tries.get(kind, {}).pop(entry.id, None)
        return None

    async def _handled(self, kind: str, entry: Entry) -> None:
        done = self._done.setdefault(kind, {})
        done[entry.id] = None
        self._tries.get(kind, {}).pop(entry.id, None)
        # What comes again comes where a process has died. If the next entry is why, this one must not count as in vain.
        again = entry.tries > 1
        if again or len(done) > PAGE or time.monotonic() - self._acked_at >= ACK_EVERY_S:
            await self._flush(kind)

    async def _flush(self, kind: str) -> None:
        """Ack what is done; while the bus is away it waits for the next time."""
        ids = self._handled_of(kind)
        self._acked_at = time.monotonic()
        if not ids:
            return
        try:
            await self.ack(kind, ids)
        except PositionLost as lost:  # and with it what these were
            self._say_lost(kind, lost)
        except ArteryError as error:
            if not error.temporary:
                raise
            return
        self._forget(kind, ids)

    def _handled_of(self, kind: str) -> list[str]:
        """What is to be acked."""
        ids = list(self._done.get(kind, ()))
        if ids:
            crash.point("bus.handled")
        return ids

    def _say_lost(self, kind: str, lost: PositionLost) -> None:
        """A loss is met once, by whichever call is the first; what follows it comes next."""
        self.losses += 1
        _log.warning("entries were lost before they were read, going on", stream=kind, error=str(lost))

    def _forget(self, kind: str, acked: Sequence[str]) -> None:
        done = self._done.get(kind, {})  # which is empty if this was closed meanwhile
        for id_ in acked:
            done.pop(id_, None)
