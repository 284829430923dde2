"""Many clients come back at once: each goes on behind what it saw, and the past is read once for all of them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.bus.base import Entry
from artery.client import Artery, Gap
from artery.client.frames import Event
from artery.gateway.past import Past
from artery.gateway.shelf import Shelf
from artery.lake.reads import Lake
from artery.model import codec
from artery.model.events import Trade
from tests.faults.trial import LONG
from tests.gateway.made import BTC, trade
from tests.gateway.running import Running, started, until

CLIENTS = 1_000 if LONG else 200
WITHIN_S = 30.0


async def put(running: Running, first: int, last: int) -> None:
    made = [trade(n) for n in range(first, last + 1)]
    await running.append("trade", *made)
    await running.publish(*made)


async def seqs(stream: AsyncIterator[Event | Gap], last: int) -> list[int]:
    """The seqs of trades up to `last`; a gap stands for what it names."""
    found: list[int] = []
    async for item in stream:
        if isinstance(item, Gap):
            found += range(int(item.from_position.split(".")[1]) + 1, int(item.to_position.split(".")[1]) + 1)
        elif isinstance(item, Trade):
            found.append(item.seq)
        if found and found[-1] >= last:
            break
    return found


async def test_all_who_come_back_at_once_resume_or_are_told_the_gap(tmp_path: Path) -> None:
    async with started(tmp_path) as running, Artery(running.url, running.key) as artery:
        await put(running, 1, 5)
        streams = [artery.stream("SIM:BTC", ["TRADE"], 0) for _ in range(CLIENTS)]
        for at in range(0, CLIENTS, 50):
            first = await asyncio.gather(*(seqs(stream, 5) for stream in streams[at : at + 50]))
            assert first == [[1, 2, 3, 4, 5]] * len(first)
        for connection in running.gateway.sessions.everyone():
            connection.close(4000, "the gateway restarts")
        await put(running, 6, 105)
        async with asyncio.timeout(WITHIN_S):
            second = await asyncio.gather(*(seqs(stream, 105) for stream in streams))
        assert second == [list(range(6, 106))] * CLIENTS
        assert running.gateway.hub.subscribers(BTC) == CLIENTS
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        await until(lambda: running.gateway.sessions.live == 0)


class Counted:
    """A bus of one page that counts how often it is read."""

    def __init__(self, entries: int) -> None:
        self.reads = 0
        self._entries = [Entry(str(n), codec.encode(trade(n))) for n in range(1, entries + 1)]

    async def read(self, stream: str, after: str, limit: int) -> list[Entry]:
        self.reads += 1
        await asyncio.sleep(0)
        return self._entries[int(after) : int(after) + limit]


async def test_a_page_is_read_once_for_all_and_one_that_may_grow_is_read_again() -> None:
    bus = Counted(15)
    past = Past(bus, None, page=10)  # type: ignore[arg-type]
    pages = await asyncio.gather(*(past.page("trade", "0") for _ in range(100)))
    assert (bus.reads, len({id(page) for page in pages})) == (1, 1)
    await past.page("trade", "0")
    assert bus.reads == 1
    for _ in range(2):
        await asyncio.gather(*(past.page("trade", "10") for _ in range(100)))
    assert bus.reads == 3


async def test_a_shelf_keeps_within_its_bound_and_forgets_what_failed() -> None:
    shelf: Shelf[int] = Shelf(100)
    made: list[int] = []

    async def make(number: int) -> tuple[int, int]:
        made.append(number)
        if number < 0:
            raise ValueError("no")
        return number, 40

    for number in (1, 2, 3, 2, 1):
        assert await shelf.get(number, lambda number=number: make(number)) == number  # type: ignore[misc]
    assert made == [1, 2, 3, 1]
    assert len(shelf) == 2
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await shelf.get(-1, lambda: make(-1))
    assert made[-2:] == [-1, -1]


async def test_who_leaves_while_something_is_made_stops_nobody_else() -> None:
    shelf: Shelf[str] = Shelf(10)
    go = asyncio.Event()

    async def make() -> tuple[str, int]:
        await go.wait()
        return "made", 1

    waiting = [asyncio.create_task(shelf.get("key", make)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go.set()
    assert await asyncio.gather(*waiting[1:]) == ["made", "made"]


class Noted(Lake):
    """A lake that remembers what was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.starts: list[int] = []

    def arrival_cuts(self, ticker: str, start_ms: int, rows_max: int) -> list[int]:
        self.starts.append(start_ms)
        return super().arrival_cuts(ticker, start_ms, rows_max)


async def test_a_read_of_the_lake_that_all_have_left_is_not_begun(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        lake = Noted(running.settings.folder)
        past = Past(running.bus, lake)
        go = threading.Event()
        for _ in range(2):  # both threads have other work
            past._threads.submit(go.wait)
        waiting = [asyncio.create_task(past.trade_plan(("sim", "BTC"), at * 60_000)) for at in (1, 1, 2, 3)]
        await asyncio.sleep(0.05)
        for task in waiting[1:]:
            task.cancel()
        await asyncio.sleep(0.05)
        go.set()
        assert (await waiting[0]).pieces[0][0] == 60_000
        past._threads.shutdown()
        assert lake.starts == [60_000]
        lake.close()
