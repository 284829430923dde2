"""The bounded place between the venue's socket and the writer."""

import asyncio
from collections import deque

from artery.ingest.marks import Span
from artery.model.events import Trade
from artery.providers.base import Batch, Signal, Up

OVERFLOW = "overflow"


class Intake:
    """Keeps what came in order, up to `events_max` events; what does not fit is left out and said.

    Trades that did not fit become holes, one for each market, which `take_holes` hands out; books and mids
    that did not fit are only counted, as newer ones follow.
    """

    def __init__(self, events_max: int) -> None:
        self._max = events_max
        self._signals: deque[Signal] = deque()
        self._holes: dict[str, Span] = {}
        self._wake = asyncio.Event()
        self.events = 0
        self.lost = 0

    def put(self, signal: Signal) -> None:
        """Keep it if there is room; never waits."""
        size = _size(signal)
        if isinstance(signal, Batch) and self.events and self.events + size > self._max:
            self._leave_out(signal)
            return
        if size:
            self.events += size
            self._signals.append(signal)
            self._wake.set()

    def take(self, events_max: int) -> list[Signal]:
        """What came, oldest first, about so many events of it."""
        taken: list[Signal] = []
        count = 0
        while self._signals and count < events_max:
            taken.append(self._signals.popleft())
            count += _size(taken[-1])
        self.events -= count
        return taken

    def take_holes(self) -> list[Span]:
        """The holes that were not handed out yet."""
        holes, self._holes = list(self._holes.values()), {}
        return holes

    def oldest_ms(self) -> int | None:
        """When the oldest signal that waits came."""
        return _at_ms(self._signals[0]) if self._signals else None

    async def wait(self, timeout_s: float) -> None:
        """Until something came or the time is over."""
        if self._signals:
            await asyncio.sleep(0)
            return
        self._wake.clear()
        timer = asyncio.get_running_loop().call_later(max(0.0, timeout_s), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _leave_out(self, batch: Batch) -> None:
        self.lost += len(batch.events)
        for event in batch.events:
            if isinstance(event, Trade):
                old = self._holes.get(event.coin)
                from_ms = min(event.ts, batch.received_ms, old.from_ms if old else event.ts)
                to_ms = max(event.ts, batch.received_ms, old.to_ms if old else 0)
                self._holes[event.coin] = Span(event.coin, from_ms, to_ms, OVERFLOW)


def _size(signal: Signal) -> int:
    return len(signal.events) if isinstance(signal, Batch) else 1


def _at_ms(signal: Signal) -> int:
    if isinstance(signal, Batch):
        return signal.received_ms
    return signal.at_ms if isinstance(signal, Up) else signal.from_ms
