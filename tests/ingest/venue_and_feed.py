"""The simulated venue over its real socket, ingest beside it, and the venue's own truth to compare with."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from artery.bus.base import place
from artery.bus.open import open_bus
from artery.ingest.parts import Parts, Pauses
from artery.ingest.service import Service
from artery.live.lock import StoreLock
from artery.live.memory import MemoryPubSub
from artery.model import codec
from artery.model.events import Clock, Mark, Trade
from artery.providers.hyperliquid_venue import HyperliquidVenue
from artery.providers.sim.market import SimMarket
from artery.providers.sim.server import SimServer
from artery.providers.timing import Timing
from artery.settings import Settings
from artery.store.open import open_store
from tests.ingest.scripted import until

COINS = ("BTC", "ETH", "SOL")
QUICK = Timing(
    tick_s=0.02, silence_s=0.8, book_stale_s=1.0, ack_s=1.0, gather_s=0.1, retry_s=0.1, backoff_s=0.05,
    backoff_max_s=0.2, margin_ms=300, connects_per_min=600.0,
)  # fmt: skip


class Play:
    """A venue, a bus and a store; `serving` adds a process that ingests."""

    def __init__(self, server: SimServer, port: int, folder: Path, **ingest: Any) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"
        self.ws_url = f"ws://127.0.0.1:{port}/ws"
        self.bus = open_bus(f"sqlite:///{folder}/bus.db")
        self.store = open_store(f"sqlite:///{folder}/store.db")
        self.pubsub = MemoryPubSub()
        settings = {"provider": "sim", "markets": COINS, "grace_s": 0.3, "history_days": 0.0} | ingest
        self.settings = Settings().with_(ingest=settings)
        self._http = httpx.AsyncClient(trust_env=False)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[asyncio.Task[None]]:
        """One process that ingests, until the end of the block."""
        venue = HyperliquidVenue("sim", self.ws_url, f"{self.url}/info", weight_per_min=0, timing=QUICK)
        pauses = Pauses(beat_s=0.05, look_s=0.05, ask_s=0.0, status_s=0.1)
        parts = Parts(self.settings, self.bus, self.pubsub, self.store, venue, pauses=pauses)
        task = asyncio.create_task(Service(parts, StoreLock(self.store), pause_s=(0.01, 0.02)).run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})
            await venue.close()

    async def disturb(self, **order: Any) -> None:
        (await self._http.post(f"{self.url}/faults", json=order)).raise_for_status()

    async def truth(self, coin: str, start_ms: int, end_ms: int) -> list[tuple[int, str]]:
        """Every trade (time, id) of the venue in [start_ms, end_ms), in its order."""
        asked = {"coin": coin, "start_ms": start_ms, "end_ms": end_ms}
        answer = await self._http.post(f"{self.url}/truth", json=asked)
        return [(row["time"], str(row["tid"])) for row in answer.raise_for_status().json()]

    async def trades(self) -> list[Trade]:
        events = [codec.decode(entry.fields) for entry in await self.bus.read("trade", limit=200_000)]
        return [event for event in events if isinstance(event, Trade)]

    async def feed(self) -> list[Mark | Clock]:
        events = [codec.decode(entry.fields) for entry in await self.bus.read("feed", limit=100_000)]
        return [event for event in events if isinstance(event, (Mark, Clock))]

    async def marks(self) -> list[Mark]:
        return [event for event in await self.feed() if isinstance(event, Mark)]

    async def clock_ms(self) -> int:
        return max((event.ts for event in await self.feed() if isinstance(event, Clock)), default=0)

    async def vouched_beyond(self, ms: int) -> None:
        """Until the clock has passed this time."""

        async def beyond() -> bool:
            return await self.clock_ms() > ms

        await until(beyond, "the clock passes", 0.05)

    async def traded(self, count: int) -> None:
        """Until so many trades are on the bus."""

        async def enough() -> bool:
            return place(await self.bus.head("trade"))[0] >= count

        await until(enough, f"{count} trades", 0.05)

    async def marked(self, condition: Callable[[Mark], bool]) -> Mark:
        """The first mark that meets the condition, once there is one."""

        async def there() -> Mark | None:
            return next((mark for mark in await self.marks() if condition(mark)), None)

        found: Mark = await until(there, "the mark", 0.05)
        return found

    async def state(self, wanted: str) -> None:
        async def there() -> bool:
            value = await self.store.get("artery:feed:sim")
            return value is not None and msgspec.json.decode(value)["state"] == wanted

        await until(there, f"the feed is {wanted}")

    async def check(self) -> int:
        """Compare the bus with the venue's truth; return how many trades were compared.

        Between the first mark's end and the newest clock, every trade of the venue is on the bus or inside a mark;
        nothing is there twice or out of order, and every series counts from 1 without a gap.
        """
        trades, marks = await self.trades(), await self.marks()
        start_ms, end_ms = min(mark.to_ms for mark in marks), await self.clock_ms()
        compared = 0
        for coin in COINS:
            own = [trade for trade in trades if trade.coin == coin]
            names = [(trade.ts, trade.tid) for trade in own]
            assert len(names) == len(set(names))
            truth = await self.truth(coin, start_ms, end_ms + 1)
            spans = [(mark.from_ms, mark.to_ms) for mark in marks if mark.coin in ("", coin)]
            missing = [name for name in truth if name not in set(names)]
            assert [name for name in missing if not any(a <= name[0] <= b for a, b in spans)] == []
            there = set(truth)
            assert [name for name in names if start_ms <= name[0] <= end_ms and name not in there] == []
            _check_places(own, truth)
            compared += len(truth) - len(missing)
        return compared

    async def close(self) -> None:
        await self._http.aclose()
        await self.bus.close()
        await self.store.close()


def _check_places(own: list[Trade], truth: list[tuple[int, str]]) -> None:
    order = {name: index for index, name in enumerate(truth)}
    for epoch in {trade.epoch for trade in own}:
        of_epoch = [trade for trade in own if trade.epoch == epoch]
        assert [trade.seq for trade in of_epoch] == list(range(1, len(of_epoch) + 1))
        places = [order[name] for trade in of_epoch if (name := (trade.ts, trade.tid)) in order]
        assert places == sorted(places)


@asynccontextmanager
async def play(folder: Path, *, trades_per_s: float = 200.0, **ingest: Any) -> AsyncIterator[Play]:
    """A venue of so many trades a second, and room for ingest."""
    server = SimServer(SimMarket(7, trades_per_s))
    port = await server.start(0)
    one = Play(server, port, folder, **ingest)
    try:
        yield one
    finally:
        await one.close()
        await server.stop()
