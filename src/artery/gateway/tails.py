"""Following the bus: candles to the hub and to memory, pages of history to memory, marks of the feeds to clients."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from artery.bus.base import CAPS, START, Bus, Entry, place
from artery.errors import ArteryError, BadEvent, PositionLost
from artery.gateway import metrics
from artery.gateway.catalog import Catalog
from artery.gateway.history import LakeReads
from artery.gateway.hub import Hub, message_of
from artery.gateway.keys import wall_ms
from artery.gateway.marks import Marks
from artery.gateway.recent import Recent
from artery.gateway.rows import candle_row, page_rows
from artery.model import codec
from artery.model.events import Book, Candle, Mark, Trade
from artery.model.tickers import parse_ticker
from artery.telemetry import logger
from artery.wire import history as pages

_MARKS_SCAN = 20_000
_MARKS_PAGE = 1_000
_NEWEST = 500
_POSITIONS_S = 2.0
_RETRY_S = 1.0

_log = logger("gateway")


class Tails:
    """What the gateway knows from the bus. `run` starts where the lake ends, so that history has no hole."""

    def __init__(self, bus: Bus, lake: LakeReads, hub: Hub, catalog: Catalog, recent: Recent, marks: Marks) -> None:
        self._bus = bus
        self._lake = lake
        self._hub = hub
        self._catalog = catalog
        self._recent = recent
        self.marks = marks
        self._feed_head = START

    async def start(self) -> dict[str, str]:
        """Read what is needed before the first client: the newest books and trades, the marks, where the lake ends."""
        for stream in ("book", "trade"):
            for entry in reversed(await self._bus.read_back(stream, _NEWEST)):
                event = decoded(entry)
                if isinstance(event, (Book, Trade)):
                    self._hub.remember(message_of(event))
        # Its head first: what is written from here on is followed, whatever is read meanwhile.
        self._feed_head = await self._bus.head("feed")
        positions = await self._positions()
        await self._old_marks(place(positions.get("feed", START)))
        return positions

    async def run(self, positions: dict[str, str]) -> None:
        """Follow the streams for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._candles(positions.get("candle", "0")))
            group.create_task(self._history(positions.get("history", "0")))
            group.create_task(self._feed(self._feed_head))
            group.create_task(self._commits())

    async def _candles(self, after: str) -> None:
        """Those up to the head are the past: they go to memory only."""
        head = place(await self._bus.head("candle"))
        async for entries in self._follow("candle", after, self._candles_lost):
            old = [entry for entry in entries if place(entry.id) <= head]
            self._take_candles(old, live=False)
            self._take_candles(entries[len(old) :], live=True)

    def _candles_lost(self) -> None:
        self._hub.deliver_gap("CANDLE:", "trimmed")

    def _take_candles(self, entries: Sequence[Entry], *, live: bool) -> None:
        found: list[Candle] = []
        for entry in entries:
            event = decoded(entry)
            if isinstance(event, Candle):
                self._catalog.see(event.provider, event.coin)
                series = (event.provider, event.coin, event.period.seconds)
                self._recent.add("candle", entry.id, series, [candle_row(event)], event.event_ts)
                found.append(event)
        self._hub.accept_candles(found, live=live)

    async def _history(self, after: str) -> None:
        async for entries in self._follow("history", after):
            for entry in entries:
                self._take_page(entry)
                await asyncio.sleep(0)  # a page is 500 rows: let live events pass between two of them

    def _take_page(self, entry: Entry) -> None:
        try:
            event_ts = int(entry.fields.get("eventTs", "0"))
            page = pages.decode(entry.fields)
            series = (*parse_ticker(page.ticker), page.period_s)
            self._recent.add("history", entry.id, series, page_rows(page), event_ts)
        except (ArteryError, ValueError):
            metrics.SKIPPED.labels("undecodable").inc()

    async def _feed(self, after: str) -> None:
        async for entries in self._follow("feed", after):
            for entry in entries:
                event = decoded(entry) if entry.fields.get("t") == "MARK" else None
                if isinstance(event, Mark):
                    self.marks.add(event)
                    self._hub.accept_mark(event)

    async def _commits(self) -> None:
        """Forget what the lake has taken up."""
        while True:
            try:
                for stream, position in (await self._positions()).items():
                    self._recent.committed(stream, position)
            except ArteryError as error:
                _log.warning("the lake's positions could not be read", error=str(error))
            metrics.RECENT_ROWS.set(len(self._recent))
            await asyncio.sleep(_POSITIONS_S)

    async def _positions(self) -> dict[str, str]:
        return await asyncio.to_thread(self._lake.positions)

    async def _old_marks(self, stored: tuple[int, ...]) -> None:
        """Those of the feed's newest entries, and of all that the lake does not have."""
        found: list[Mark] = []
        scanned, oldest, head = 0, "", place(self._feed_head)
        while scanned < CAPS["feed"]:
            entries = await self._bus.read_back("feed", _MARKS_PAGE, oldest)
            old = [entry for entry in entries if place(entry.id) <= head and entry.fields.get("t") == "MARK"]
            found += [mark for entry in old if isinstance(mark := decoded(entry), Mark)]
            scanned += len(entries)
            oldest = entries[-1].id if entries else oldest
            if len(entries) < _MARKS_PAGE or (scanned >= _MARKS_SCAN and place(oldest) <= stored):
                break
        when = await self._bus.when("feed", [oldest]) if oldest else [0]
        self.marks.known_ms = when[0] or wall_ms()
        for mark in reversed(found):
            self.marks.add(mark)
            self._hub.note_epoch(mark.provider, mark.epoch)

    async def _follow(
        self, stream: str, after: str, lost: Callable[[], None] = lambda: None
    ) -> AsyncIterator[list[Entry]]:
        """As the bus does, but it goes on after trouble; what was trimmed is told to `lost`."""
        while True:
            try:
                async for entries in self._bus.follow(stream, after):
                    yield entries
                    after = entries[-1].id
            except PositionLost as error:
                _log.warning("entries were trimmed before the gateway had read them", stream=stream, error=str(error))
                after = error.first
                lost()
            except ArteryError as error:
                if not error.temporary:
                    raise
                _log.warning("following the bus failed, trying again", stream=stream, error=str(error))
            await asyncio.sleep(_RETRY_S * random.uniform(0.5, 1.0))


def decoded(entry: Entry) -> Any:
    """The event of an entry, or None where it cannot be read; that is counted."""
    try:
        return codec.decode(entry.fields, entry_id=entry.id)
    except BadEvent:
        metrics.SKIPPED.labels("undecodable").inc()
        return None
