"""The engine as a service: one leader that turns candles and trades into values in the store."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable

import msgspec

from artery.bus.base import START, Bus
from artery.engine import metrics
from artery.engine.board import Board
from artery.engine.intake import Intake, read_on
from artery.engine.lakeside import LakeReads, Looks, look
from artery.engine.records import MARKETS, SERIES, Key
from artery.errors import Fenced, Unavailable
from artery.indicators.places import VALUES
from artery.indicators.vwap import DAY_MS
from artery.lake.sums import Traded
from artery.live.base import LeaderLock, Term
from artery.live.leader import PAUSE_S, lead
from artery.model.events import Candle, Trade
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger

LOCK = "artery:lock:engine"
LOCK_TTL_S = 30.0
WAIT_MS = 1_000
TRADE_PAGES_MAX = 50
"""Pages of trades in one turn, at most."""
UNACKED_MAX = 20_000
LAKE_S = 2.0
"""Time between two turns that ask the lake."""
LOOK_S = 0.5
"""Time for the lake in one turn; a look that was begun is finished."""
_log = logger("engine")


async def run_engine(
    settings: Settings,
    bus: Bus,
    store: Store,
    lock: LeaderLock,
    lake: LakeReads,
    *,
    pause_s: tuple[float, float] = PAUSE_S,
) -> None:
    """Keep every series' indicators in the store until cancelled; others may stand by and take over."""
    if not settings.engine.workers:
        _log.info("indicators are off in this process (ART_ENGINE_WORKERS)")
        await asyncio.Event().wait()

    async def work(_term: Term) -> None:
        await Engine(bus, store, lake, pace_s=settings.engine.pace_ms / 1_000, save_s=settings.engine.save_s).run()

    await lead(lock, LOCK, work, LOCK_TTL_S, pause_s=pause_s)


class Engine:
    """One term as the leader.

    A turn takes what the streams have, writes each changed value once, and acks later what is saved by then: whatever
    dies in between is read again, and a candle or trade that was counted is not counted twice. Every write replaces
    exactly what this leader wrote last, so one that was frozen and comes back is refused.
    """

    def __init__(
        self,
        bus: Bus,
        store: Store,
        lake: LakeReads,
        *,
        pace_s: float = 0.5,
        save_s: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.board = Board()
        self._bus, self._store, self._lake = bus, store, lake
        self._pace_s, self._save_s = pace_s, save_s
        self._clock, self._monotonic = clock, monotonic
        self._candles = Intake(bus, "candle", "cg_indicator_candle", Candle)
        self._trades = Intake(bus, "trade", "cg_indicator_trade", Trade)
        self._looks = Looks(monotonic, uniform)
        self._written: dict[str, bytes] = {}
        self._saved_at = monotonic()
        self._looked_at = self._failed_at = -LAKE_S

    async def run(self) -> None:
        """Begin where the last leader stopped, and go on for ever."""
        await self.begin()
        while True:
            began = self._monotonic()
            await self.turn(WAIT_MS)
            await asyncio.sleep(max(0.0, self._pace_s - (self._monotonic() - began)))

    async def begin(self) -> None:
        """Read what was saved, then what was given out and never acked."""
        await self._restore(SERIES, self.board.restore_series)
        summed = await self._restore(MARKETS, self.board.restore_market)
        await self._remember(VALUES)
        for one in self.board.series():
            self._looks.later(one)
        await self._candles.begin(await self._lake_position())
        await self._trades.begin(await (self._bus.head("trade") if summed else self._recount()))
        async for trades in self._trades.left_over():
            self._take_trades(trades)
        async for candles in self._candles.left_over():
            self._take_candles(candles)

    async def _restore(self, prefix: str, restore: Callable[[bytes], None]) -> bool:
        """Whether there was something saved, and all of it could be read."""
        found, is_whole = await self._remember(prefix), True
        for key, raw in found:
            try:
                restore(raw)
            except msgspec.MsgspecError as error:
                _log.warning("a saved state cannot be read and is made anew", key=key, error=str(error))
                is_whole = False
        return is_whole and bool(found)

    async def turn(self, wait_ms: int = 0) -> None:
        """One round: candles, then the trades that they hold, then what follows from both."""
        candles, more = await self._candles.new(wait_ms)
        while more and len(self._candles) < UNACKED_MAX:
            page, more = await self._candles.new()
            candles += page
        await self._drain_trades()  # after the candles: the trades that they are made of are on the bus by then
        self._take_candles(candles)
        await self._look_up()
        await self._put(self.board.series_to_write())
        unacked = len(self._candles) + len(self._trades)
        if unacked >= UNACKED_MAX or self._monotonic() - self._saved_at >= self._save_s:
            await self.save()

    async def save(self) -> None:
        """Save what has not been, then ack what was taken in."""
        await self._put(self.board.markets_to_write())
        await self._trades.ack()
        await self._candles.ack()
        self._saved_at = self._monotonic()
        metrics.SERIES.set(len(self.board))
        metrics.WARM.set(self.board.warm)

    async def _recount(self) -> str:
        """Sum today's and yesterday's trades anew: the lake's, then those of the log that it does not have; return how
        far that is. While the lake cannot be read, what there is stays; or the log's trades of today are all."""
        now_ms = int(self._clock() * 1_000)
        midnight_ms = now_ms - now_ms % DAY_MS
        try:
            found = await asyncio.to_thread(self._lake.traded, midnight_ms - DAY_MS)
            self.board.recount(found, now_ms)
            self._trades.lost = False
        except Unavailable as error:
            _log.warning("the lake could not be read, trying again", error=str(error))
            found, self._trades.lost, self._failed_at = Traded(START), True, self._monotonic()
        after = found.position if found.position != START else await self._bus.find("trade", midnight_ms)
        async for page in read_on(self._bus, "trade", after, Trade):
            self._take_trades(page)
            after = page[-1][0]
        return after

    async def _drain_trades(self) -> None:
        for _ in range(TRADE_PAGES_MAX):
            trades, more = await self._trades.new()
            self._take_trades(trades)
            if not more:
                break
            if len(self._trades) >= UNACKED_MAX:
                await self.save()
        if self._trades.lost and self._monotonic() - self._failed_at >= LAKE_S:
            await self._recount()

    def _take_trades(self, trades: list[tuple[str, Trade]]) -> None:
        for position, trade in trades:
            self.board.trade(position, trade)
        metrics.TRADES.inc(len(trades))

    def _take_candles(self, candles: list[tuple[str, Candle]]) -> None:
        for position, candle in candles:
            self.board.candle(position, candle)
            metrics.CANDLES.labels("closed" if candle.closed else "open").inc()

    async def _look_up(self) -> None:
        """Compare some series with the lake; its trouble is not the engine's."""
        if self._candles.lost:
            self._candles.lost = False
            self.board.behind.update(self.board.series())
        if not self.board.behind and self._monotonic() - self._looked_at < LAKE_S:
            return
        while self.board.behind:
            self._looks.soon(self.board.behind.pop())
        due = sorted(self._looks.due(), key=lambda key: self.board.track(key).warm)  # those without a past come first
        if due:
            await self._compare(due)
            self._looked_at = self._monotonic()

    async def _compare(self, due: list[Key]) -> None:
        until = self._monotonic() + LOOK_S
        try:
            reached = (await asyncio.to_thread(self._lake.positions)).get("history", START)
            for key in due:
                if self._looks.is_seen(key, reached) and not self._looks.seldom(key):
                    self._looks.later(key)
                    continue
                if self._monotonic() > until:
                    return
                track = await asyncio.to_thread(look, self._lake, key, self.board.track(key))
                if track is not None:
                    self.board.replace(key, track)
                self._looks.looked(key, reached, changed=track is not None)
        except Unavailable as error:
            _log.warning("the lake could not be read, trying again", error=str(error))
            for key in due:
                self._looks.later(key)

    async def _put(self, items: Iterable[tuple[str, bytes]]) -> None:
        done = await asyncio.gather(*(self._put_one(key, value) for key, value in items), return_exceptions=True)
        for error in done:
            if error is not None:
                raise error

    async def _put_one(self, key: str, value: bytes) -> None:
        before = self._written.get(key)
        if value == before:
            return
        if not await self._store.compare_and_set(key, before, value):
            raise Fenced(f"{key} was written by another engine: this one stops")
        self._written[key] = value

    async def _lake_position(self) -> str:
        """Where a new group begins: what lies before it comes from the lake."""
        try:
            return (await asyncio.to_thread(self._lake.positions)).get("candle", START)
        except Unavailable as error:
            _log.warning("the lake could not be read, all of the log is", error=str(error))
            return START

    async def _remember(self, prefix: str) -> list[tuple[str, bytes]]:
        found = list(await self._store.scan(prefix))
        self._written |= dict(found)
        return found
