"""What the tests of this room share: a simulated venue on a free port, and ways to listen to it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from artery.model.events import Trade
from artery.providers.base import Batch, Down, Signal, Up
from artery.providers.frames import Data
from artery.providers.hyperliquid import HyperliquidDialect
from artery.providers.hyperliquid_venue import HyperliquidVenue
from artery.providers.sim.floor import Pace
from artery.providers.sim.market import SimMarket
from artery.providers.sim.server import SimServer
from artery.providers.sim.server import Timing as SimTiming
from artery.providers.timing import Timing

DEADLINE_S = 30.0
CALM = Timing(  # quick where waiting is all there is, calm where a busy machine could be taken for a silent venue
    tick_s=0.02,
    ack_s=20.0,
    gather_s=0.05,
    silence_s=20.0,
    book_stale_s=20.0,
    mids_stale_s=20.0,
    retry_s=0.3,
    retry_max_s=0.6,
    quarantine_s=0.3,
    backoff_s=0.05,
    backoff_max_s=0.2,
    messages_per_min=1e6,
    connects_per_min=1e6,
)


def parse_trades(rows: str) -> list[Trade]:
    """The venue's array of trades, as Artery reads it."""
    heard = HyperliquidDialect("sim").parse(f'{{"channel":"trades","data":{rows}}}'.encode(), 0)
    assert isinstance(heard, Data)
    assert heard.bad == 0
    return [event for event in heard.events if isinstance(event, Trade)]


class Place:
    """A running venue, and someone to talk to it."""

    def __init__(self, server: SimServer, port: int, venue: HyperliquidVenue, http: httpx.AsyncClient) -> None:
        self.server, self.port, self.venue, self._http = server, port, venue, http

    async def post(self, path: str, body: Any) -> httpx.Response:
        return await self._http.post(f"http://127.0.0.1:{self.port}{path}", json=body)

    async def fault(self, **order: Any) -> None:
        assert (await self.post("/faults", order)).status_code == 200

    async def truth(self, coin: str, start_ms: int, end_ms: int) -> list[Trade]:
        answer = await self.post("/truth", {"coin": coin, "start_ms": start_ms, "end_ms": end_ms})
        assert answer.status_code == 200
        return parse_trades(answer.text)


@asynccontextmanager
async def place(*, rate: float = 200.0, timing: Timing = CALM, idle_s: float = 60.0) -> AsyncIterator[Place]:
    server = SimServer(
        SimMarket(7, rate),
        pace=Pace(book_ms=50, mids_ms=100),
        timing=SimTiming(flush_s=0.01, refuse_after_s=0.02, idle_s=idle_s),
    )
    port = await server.start(0)
    host = f"127.0.0.1:{port}"
    venue = HyperliquidVenue("sim", f"ws://{host}/ws", f"http://{host}/info", timing=timing, weight_per_min=0)
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE_S) as http:
            yield Place(server, port, venue, http)
    finally:
        await venue.close()
        await server.stop()


class Ear:
    """Listens to a venue and keeps what it says."""

    def __init__(self, signals: AsyncGenerator[Signal, None]) -> None:
        self.signals = signals
        self.heard: list[Signal] = []

    async def until(self, done: Callable[[Signal], bool]) -> Signal:
        """Listen until a signal for which `done` holds, and return it."""
        async with asyncio.timeout(DEADLINE_S):
            async for signal in self.signals:
                self.heard.append(signal)
                if done(signal):
                    return signal
        raise AssertionError("the venue's iterator ended")

    async def until_up(self, *coins: str) -> Up:
        """Listen until all of these markets are watched; a slow venue may confirm them one by one."""
        missing = set(coins)

        def complete(signal: Signal) -> bool:
            if isinstance(signal, Up):
                missing.difference_update(signal.coins)
            elif isinstance(signal, Down):
                missing.update(set(signal.coins or coins) & set(coins))
            return not missing

        signal = await self.until(complete)
        assert isinstance(signal, Up)
        return signal

    async def until_down(self) -> Down:
        signal = await self.until(lambda signal: isinstance(signal, Down))
        assert isinstance(signal, Down)
        return signal

    async def until_trade(self, coin: str, after_ms: int = 0) -> Trade:
        """Listen until a trade of this market that is newer than `after_ms`."""

        def newest(signal: Signal) -> Trade | None:
            events = signal.events if isinstance(signal, Batch) else []
            fits = [event for event in events if isinstance(event, Trade) and event.coin == coin]
            return fits[-1] if fits and fits[-1].ts > after_ms else None

        found = newest(await self.until(lambda signal: newest(signal) is not None))
        assert found is not None
        return found

    def trades(self, coin: str) -> list[Trade]:
        """Every trade of this market so far, once each."""
        found = {}
        for signal in self.heard:
            if isinstance(signal, Batch):
                found |= {
                    event.tid: event for event in signal.events if isinstance(event, Trade) and event.coin == coin
                }
        return sorted(found.values(), key=lambda trade: trade.ts)

    def downs(self) -> list[Down]:
        return [signal for signal in self.heard if isinstance(signal, Down)]

    def holes(self, coin: str) -> list[tuple[int, int]]:
        """The times for which the feed said that it did not watch this market."""
        holes, since = [], None
        for signal in self.heard:
            if isinstance(signal, Down) and (not signal.coins or coin in signal.coins):
                since = signal.from_ms if since is None else min(since, signal.from_ms)
            elif isinstance(signal, Up) and coin in signal.coins and since is not None:
                holes.append((since, signal.at_ms))
                since = None
        return holes


@asynccontextmanager
async def ear(venue: HyperliquidVenue, *coins: str) -> AsyncIterator[Ear]:
    async with aclosing(venue.listen(coins)) as signals:
        yield Ear(signals)
