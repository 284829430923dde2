"""Reading a stream through the engine's group: what was left over first, then new; acked only when it is told to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from artery.bus.base import START, Bus, Entry, place
from artery.bus.dead import bury
from artery.engine import metrics
from artery.errors import BadEvent, PositionLost
from artery.model import codec
from artery.telemetry import logger

CONSUMER = "engine"
"""One name for all: only the leader reads, and what the one before it left over is its own."""
PAGE = 1_000
_log = logger("engine")

E = TypeVar("E")


class Intake(Generic[E]):
    """One stream's events of one kind; anything else goes to the dead letters at once."""

    def __init__(self, bus: Bus, stream: str, group: str, kind: type[E]) -> None:
        self._bus, self._stream, self._group, self._kind = bus, stream, group, kind
        self._unacked: list[str] = []
        self.lost = False
        """Whether entries were trimmed before they were read, since this was last set back."""

    def __len__(self) -> int:
        return len(self._unacked)

    async def begin(self, start: str) -> None:
        """Make the group if it is new, to begin after `start`."""
        await self._bus.ensure_group(self._stream, self._group, start)

    async def left_over(self) -> AsyncIterator[list[tuple[str, E]]]:
        """What was given and never acked, page by page."""
        after = START
        while page := await self._bus.read_pending(self._stream, self._group, CONSUMER, after, PAGE):
            yield await self._events(page)
            after = page[-1].id

    async def new(self, wait_ms: int = 0) -> tuple[list[tuple[str, E]], bool]:
        """The next page, and whether there may be more."""
        try:
            page = await self._bus.read_new(self._stream, self._group, CONSUMER, PAGE, wait_ms)
        except PositionLost as error:
            metrics.LOST.labels(self._stream).inc()
            _log.warning("entries were trimmed before they were read, going on", error=str(error))
            self.lost = True
            return [], True
        return await self._events(page), len(page) == PAGE

    async def ack(self) -> None:
        """Everything that was handed out is done."""
        ids, self._unacked = self._unacked, []
        if ids:
            await self._bus.ack(self._stream, self._group, ids)

    async def _events(self, page: Sequence[Entry]) -> list[tuple[str, E]]:
        found: list[tuple[str, E]] = []
        for entry in page:
            try:
                found.append((entry.id, self._event(entry)))
                self._unacked.append(entry.id)
            except BadEvent as error:
                await bury(self._bus, self._stream, self._group, entry, str(error))
        return found

    def _event(self, entry: Entry) -> E:
        return _event(entry, self._stream, self._kind)


async def read_on(bus: Bus, stream: str, after: str, kind: type[E]) -> AsyncIterator[list[tuple[str, E]]]:
    """What follows a position, without a group, up to the newest; what is bad is the group's to give up."""
    head = await bus.head(stream)
    while place(after) < place(head):
        try:
            page = await bus.read(stream, after, PAGE)
        except PositionLost as error:
            if place(error.first) <= place(after):
                return
            after = error.first
            continue
        if not page:
            return
        after, found = page[-1].id, list[tuple[str, E]]()
        for entry in page:
            with suppress(BadEvent):
                found.append((entry.id, _event(entry, stream, kind)))
        if found:
            yield found


def _event(entry: Entry, stream: str, kind: type[E]) -> E:
    if not entry.fields:
        raise BadEvent("the entry was trimmed before it was handled")
    event = codec.decode(entry.fields, entry_id=entry.id)
    if not isinstance(event, kind):
        raise BadEvent(f"the stream {stream} holds no {type(event).__name__}")
    return event
