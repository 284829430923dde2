"""The simulated venue, processes that ingest from it, and its own truth to judge them by."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from artery.bus.base import Bus, Entry
from artery.bus.open import open_bus
from artery.model import codec
from artery.model.events import Clock, Mark, Trade
from artery.providers.sim.market import SimMarket
from artery.providers.sim.server import SimServer
from artery.store.open import open_store
from tests.faults.checker import Verdict, check_feed, stale_fences
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage
from tests.faults.trial import Trial

COINS = ("BTC", "ETH")
WAIT_S = 60.0
GRACE_S = 0.3


async def reaches(condition: Callable[[], Awaitable[bool]], within_s: float = WAIT_S) -> float:
    """Wait for what must happen, or `TimeoutError`; how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(within_s):
        while True:
            if await condition():
                return loop.time() - began
            await asyncio.sleep(0.03)


class Scene:
    """A venue in this process, a log, and feeds that are processes of their own."""

    def __init__(self, stage: Stage, log: Log, port: int, ttl_s: float, pauses: str) -> None:
        self.stage, self.log, self.port = stage, log, port
        self.folder = stage.folder / log.base  # its own, because a stage may have several scenes
        self.folder.mkdir()
        self.feeds: list[Child] = []
        self._pauses = pauses
        self._http = httpx.AsyncClient(trust_env=False)
        self.bus: Bus = open_bus(log.url, log.base)
        self.shared_url = log.shared_url()
        store = self.shared_url or f"sqlite:///{self.folder}/store.db"
        self.store = open_store(store)
        self.environ = {
            "ART_DATA_DIR": str(self.folder),
            "ART_BUS_URL": log.url,
            "ART_BUS_BASE": log.base,
            "ART_STORE_URL": store,
            "ART_LIVE_URL": self.shared_url,
            "ART_INGEST_MARKETS": ",".join(COINS),
            "ART_INGEST_LOCK_TTL_S": str(ttl_s),
            "ART_INGEST_GRACE_S": str(GRACE_S),
            "ART_INGEST_HISTORY_DAYS": "0",
            "ART_VENUE_WS_URL": f"ws://127.0.0.1:{port}/ws",
            "ART_VENUE_REST_URL": f"http://127.0.0.1:{port}/info",
        }

    def feed(self, name: str, *, shift: str = "", **more: str) -> Child:
        """One more process that contends for the feed."""
        environ = self.environ | ({"FAULT_PAUSES": self._pauses} if self._pauses else {}) | more
        self.feeds.append(self.stage.start("feed", shift, name, environ))
        return self.feeds[-1]

    def leader(self, epoch: int) -> Child:
        """The process that won this epoch, by its own word."""
        return next(feed for feed in self.feeds if f"leading epoch={epoch} " in " ".join(feed.log.read_text().split()))

    async def disturb(self, **order: Any) -> None:
        answer = await self._http.post(f"http://127.0.0.1:{self.port}/faults", json=order)
        answer.raise_for_status()

    async def entries(self, stream: str) -> list[Entry]:
        return [entry async for page in self._pages(stream) for entry in page]

    async def _pages(self, stream: str) -> AsyncIterator[list[Entry]]:
        after = "0"
        while page := await self.bus.read(stream, after, 5_000):
            yield page
            after = page[-1].id

    async def clock(self) -> Clock | None:
        """The newest CLOCK."""
        for entry in await self.bus.read_back("feed", 100):
            event = codec.decode(entry.fields)
            if isinstance(event, Clock):
                return event
        return None

    async def epoch(self) -> int:
        """The epoch of the newest word of a feed."""
        newest = await self.bus.read_back("feed", 1)
        return int(newest[0].fields["epoch"]) if newest else 0

    async def led_by_newer(self, than: int, within_s: float = WAIT_S) -> int:
        """Until a leader with a higher epoch has spoken."""

        async def newer() -> bool:
            return await self.epoch() > than

        await reaches(newer, within_s)
        return await self.epoch()

    async def vouched(self, more: int = 2) -> None:
        """Until the feed has said the time so many times more."""
        for _ in range(more):
            before = await self.clock()

            async def later(before: Clock | None = before) -> bool:
                return await self.clock() != before

            await reaches(later)

    async def state(self) -> str:
        value = await self.store.get("artery:feed:sim")
        return "" if value is None else str(msgspec.json.decode(value)["state"])

    async def becomes(self, wanted: bool, within_s: float) -> float:
        """Until the feed is live, or is not; how long it took."""

        async def there() -> bool:
            return (await self.state() == "live") is wanted

        return await reaches(there, within_s)

    async def truth(self, coin: str, start_ms: int, end_ms: int) -> list[tuple[str, int, str]]:
        asked = {"coin": coin, "start_ms": start_ms, "end_ms": end_ms}
        answer = await self._http.post(f"http://127.0.0.1:{self.port}/truth", json=asked)
        return [(coin, row["time"], str(row["tid"])) for row in answer.raise_for_status().json()]

    async def judge(self, trial: Trial) -> Verdict:
        """Every trade of the venue is in the log once, or in a mark; no old fence stands behind a new one."""
        for stream in ("trade", "book", "feed"):
            assert stale_fences(int(entry.fields["epoch"]) for entry in await self.entries(stream)) == 0, trial.again
        feed = [codec.decode(entry.fields) for entry in await self.entries("feed")]
        marks = [event for event in feed if isinstance(event, Mark)]
        trades = [codec.decode(entry.fields) for entry in await self.entries("trade")]
        log = [(trade.coin, trade.ts, trade.tid) for trade in trades if isinstance(trade, Trade)]
        start_ms = min(mark.to_ms for mark in marks)
        end_ms = max(event.ts for event in feed if isinstance(event, Clock))
        truth = [name for coin in COINS for name in await self.truth(coin, start_ms, end_ms + 1)]
        holes = [(mark.coin, mark.from_ms, mark.to_ms) for mark in marks]
        assert sum(name not in set(log) for name in truth) < len(truth), f"nothing was written; {trial.again}"
        return trial.judge(check_feed(truth, log, holes, start_ms, end_ms))

    async def close(self) -> None:
        await self._http.aclose()
        await self.bus.close()
        await self.store.close()


@asynccontextmanager
async def scene(
    stage: Stage, log: Log, *, ttl_s: float = 30.0, pauses: str = "0.1 0.3", trades_per_s: float = 100.0
) -> AsyncIterator[Scene]:
    """A venue and its log; contenders rest as long as usual if `pauses` is empty."""
    server = SimServer(SimMarket(7, trades_per_s))
    made = Scene(stage, log, await server.start(0), ttl_s, pauses)
    try:
        yield made
    finally:
        for feed in made.feeds:
            feed.end()
        await made.close()
        await server.stop()
