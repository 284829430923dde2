"""The past that replays and healing read: pages of the bus and pieces of the lake, each read once for all who ask."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import msgspec
import pyarrow as pa

from artery.bus.base import Bus, Entry, place
from artery.gateway.cells import ints
from artery.gateway.columns import candle_frames, trade_frames
from artery.gateway.frames import event
from artery.gateway.shelf import Shelf, noticed
from artery.gateway.stretch import Stretch, stretch_of
from artery.live.base import Message
from artery.model.channels import Channel
from artery.model.codec import LATEST_MS
from artery.model.events import EXTERNAL
from artery.model.periods import Period
from artery.model.series import Position
from artery.model.tickers import ticker

BEFORE_MS = 60_000
"""How much earlier than an event's own time to look: clocks differ, and entries are written after their time."""

_PAGE = 1_000
_PIECE = 200
_ENTRY_BYTES = 1_000
_GRID_MS = 5_000
_LAKE_ROWS = 100_000
_LAKE_THREADS = 2
_SHELF_BYTES = 64 * 1024 * 1024
_PLANS = 256

T = TypeVar("T")
Market = tuple[str, str]
"""Provider and coin."""
Versions = dict[int, tuple[bool, int, int]]
"""Of candles, by their start: (closed, revision, time of writing)."""


class PastLake(Protocol):
    """What a replay reads of the lake; synchronous and thread-safe."""

    def arrivals(self, ticker: str, start_ms: int, end_ms: int) -> pa.Table: ...

    def arrival_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]: ...

    def revisions(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, end_ms: int) -> pa.Table: ...

    def revision_cuts(self, ticker: str, period_s: int, updated_ms: int, start_ms: int, rows_max: int) -> list[int]: ...

    def gaps(self, provider: str | None, since_ms: int, limit: int) -> pa.Table: ...

    def positions(self) -> dict[str, str]: ...

    def snapshot(self, name: str) -> int: ...


class Plan(msgspec.Struct, frozen=True):
    """How to read the lake from a time on: up to where on the bus it reaches, and pieces of time, the last open."""

    reached: str
    snapshot: int
    pieces: tuple[tuple[int, int], ...]


class Page:
    """Some entries of a stream in a row, sorted by market; made into frames when someone wants them."""

    def __init__(self, stream: str, entries: Sequence[Entry]) -> None:
        self.last = entries[-1].id if entries else ""
        self._series = {"trade": "TRADE", "book": "BOOK_TOPN"}.get(stream, "")
        self._entries: dict[Market, list[Entry]] = {}
        self._made: dict[Market, Stretch] = {}
        for entry in entries:
            market = (entry.fields.get("provider", EXTERNAL), entry.fields.get("coin", ""))
            self._entries.setdefault(market, []).append(entry)

    def entries(self, market: Market) -> list[Entry]:
        return self._entries.get(market, [])

    def messages(self, market: Market) -> list[tuple[Position, Message]]:
        """The market's events as they were when they were live; what has no place is left out."""
        channel = str(Channel(*market))
        found = ((entry, position_of(entry.fields)) for entry in self.entries(market))
        return [
            (at, Message(channel, self._series, str(at), msgspec.json.encode(entry.fields)))
            for entry, at in found
            if at is not None
        ]

    async def stretch(self, market: Market) -> Stretch:
        """The market's events as frames."""
        made = self._made.get(market)
        if made is None:
            found: list[tuple[Position, int, Message]] = [
                (at, _whole(entry.fields.get("ts", "")), message)
                for entry, (at, message) in zip(self._placed(market), self.messages(market), strict=True)
            ]
            frames = []
            for at in range(0, len(found), _PIECE):
                frames += [(position, ts, event(message)) for position, ts, message in found[at : at + _PIECE]]
                await asyncio.sleep(0)  # live events pass between two pieces
            made = self._made[market] = stretch_of(frames)
        return made

    def _placed(self, market: Market) -> list[Entry]:
        return [entry for entry in self.entries(market) if position_of(entry.fields) is not None]


class Past:
    """One for a gateway. Pages and pieces are shared, so that a thousand who come back at once cost one read."""

    def __init__(self, bus: Bus, lake: PastLake, *, page: int = _PAGE, rows: int = _LAKE_ROWS) -> None:
        self.bus = bus
        self._page_max, self._rows_max = page, rows
        self._lake = lake
        self._pages: Shelf[Page] = Shelf(_SHELF_BYTES)
        # A read of the lake takes long, and few run at once: one that all have left must not stand before others'.
        self._pieces: Shelf[Stretch] = Shelf(_SHELF_BYTES, stops=True)
        self._finds: Shelf[str] = Shelf(_PLANS)
        self._plans: Shelf[Plan] = Shelf(_PLANS, stops=True)
        self._gaps: Shelf[pa.Table] = Shelf(_PLANS, stops=True)
        self._ahead: set[asyncio.Task[Stretch]] = set()
        self._threads = ThreadPoolExecutor(_LAKE_THREADS, "past")

    async def find(self, stream: str, ms: int) -> str:
        """A position of the bus before this time, not much before it."""
        ms = max(0, ms - ms % _GRID_MS)  # on a grid, so that those who come back together read the same pages

        async def make() -> tuple[str, int]:
            return await self.bus.find(stream, ms), 1

        return await self._finds.get((stream, ms), make)

    async def page(self, stream: str, after: str) -> Page:
        """What follows a position; `PositionLost` if that was trimmed."""

        async def make() -> tuple[Page, int]:
            entries = await self.bus.read(stream, after, self._page_max)
            full = len(entries) == self._page_max  # one that is not may still grow
            return Page(stream, entries), len(entries) * _ENTRY_BYTES if full else 0

        return await self._pages.get((stream, after), make)

    async def pages(self, stream: str, after: str, head: str) -> AsyncIterator[Page]:
        """Everything from a position up to the head, and perhaps a little more."""
        end = place(head)
        while place(after) < end:
            page = await self.page(stream, after)
            if not page.last:
                return
            yield page
            after = page.last

    async def trade_plan(self, market: Market, start_ms: int) -> Plan:
        name, start_ms = ticker(*market), max(0, start_ms - start_ms % _GRID_MS)

        def cuts() -> list[int]:
            return self._lake.arrival_cuts(name, start_ms, self._rows_max)

        return await self._plan("trade", "trades", (name, start_ms), cuts)

    async def trade_piece(self, market: Market, plan: Plan, number: int) -> Stretch:
        name, (start_ms, end_ms) = ticker(*market), plan.pieces[number]

        def read() -> Stretch:
            return trade_frames(self._lake.arrivals(name, start_ms, end_ms), Channel(*market))

        return await self._piece((name, plan.snapshot, start_ms, end_ms), read)

    def soon(self, piece: Coroutine[Any, Any, Stretch]) -> asyncio.Task[Stretch]:
        """Begin to read a piece that will be asked for next; cancelled, it is not read unless another wants it."""
        task = asyncio.get_running_loop().create_task(piece)
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)
        task.add_done_callback(noticed)
        return task

    async def candle_plan(self, market: Market, period: Period, updated_ms: int, start_ms: int) -> Plan:
        name = ticker(*market)

        def cuts() -> list[int]:
            return self._lake.revision_cuts(name, period.seconds, updated_ms, start_ms, self._rows_max)

        return await self._plan("candle", "ohlc", (name, period, updated_ms, start_ms), cuts)

    async def candle_piece(
        self, market: Market, period: Period, updated_ms: int, piece: tuple[int, int], newer: Versions
    ) -> Stretch:
        """Candles of the lake, but for those of which the bus has a version that is not older."""

        def read() -> Stretch:
            table = self._lake.revisions(ticker(*market), period.seconds, updated_ms, *piece)
            return candle_frames(_without(table, newer), Channel(*market), period)

        return await self._read(read)

    async def gaps(self, provider: str | None, since_ms: int, limit: int) -> pa.Table:
        """The newest holes of the feeds that end after this time, or not much before it, oldest first."""
        since_ms = max(0, since_ms - since_ms % _GRID_MS)

        async def make() -> tuple[pa.Table, int]:
            return await self._read(lambda: self._lake.gaps(provider, since_ms, limit)), 0

        return await self._gaps.get((provider, since_ms, limit), make)

    async def _plan(self, stream: str, table: str, key: tuple[object, ...], cuts: Callable[[], list[int]]) -> Plan:
        def work() -> Plan:
            # The position first: what the lake takes up meanwhile is then in both, never in neither.
            reached = self._lake.positions().get(stream, "0")
            times = [*cuts(), LATEST_MS]
            return Plan(reached, self._lake.snapshot(table), tuple(itertools.pairwise(times)))

        async def make() -> tuple[Plan, int]:
            return await self._read(work), 0

        return await self._plans.get((stream, *key), make)

    async def _piece(self, key: tuple[object, ...], read: Callable[[], Stretch]) -> Stretch:
        async def make() -> tuple[Stretch, int]:
            piece = await self._read(read)
            return piece, len(piece.wire) + 40 * len(piece) + 1

        return await self._pieces.get(key, make)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _without(table: pa.Table, newer: Versions) -> pa.Table:
    """Candles but for those that have a version here which is not older."""
    starts, times = ints(table, "start").tolist(), ints(table, "updated").tolist()
    both = [index for index, start in enumerate(starts) if start in newer]
    if not both:
        return table
    closed, revs = table.column("closed"), table.column("rev")
    old = {at for at in both if (closed[at].as_py(), revs[at].as_py(), times[at]) <= newer[starts[at]]}
    return table.filter(pa.array([index not in old for index in range(len(starts))], pa.bool_()))


def position_of(fields: Mapping[str, str]) -> Position | None:
    """The place that an entry's fields name; None for a foreign producer's."""
    try:
        return Position(int(fields["epoch"]), int(fields["seq"]), int(fields["eventTs"]))
    except (KeyError, ValueError):
        return None


def _whole(text: str) -> int:
    return int(text) if text.isdigit() else 0
