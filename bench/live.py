"""How old a trade and its candle are at a WebSocket client, at 200 trades a second."""

import asyncio
import json
import time
from collections import defaultdict

from websockets.asyncio.client import connect

from artery.client import Artery, Gap
from artery.model.events import Candle, Trade
from bench.rows import Row, row
from bench.running import Running, opened

COINS = ("BTC", "ETH", "SOL", "HYPE", "DOGE", "XRP")
MINUTE_MS = 60_000
WARM_S, MEASURE_S = 45.0, 90.0


class Times:
    """When each trade was seen at the venue's own socket, at ours, and in a candle."""

    def __init__(self) -> None:
        self.venue: dict[tuple[str, str], float] = {}
        self.ours: dict[tuple[str, str], float] = {}
        self.order: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.holds: dict[tuple[str, int], int] = defaultdict(int)
        self.candle_ms: list[float] = []
        self.recording_from_ms = float("inf")

    def venue_trade(self, coin: str, ts: int, tid: str, now: float) -> None:
        self.venue[coin, tid] = now
        self.order[coin, ts // MINUTE_MS].append(now)

    def candle(self, candle: Candle, now: float) -> None:
        """A candle of n trades holds the first n of its minute."""
        key = (candle.coin, candle.start_ts // MINUTE_MS)
        seen = self.order[key]
        if candle.start_ts >= self.recording_from_ms:
            self.candle_ms += [(now - seen[i]) * 1_000 for i in range(self.holds[key], min(candle.n, len(seen)))]
        self.holds[key] = max(self.holds[key], min(candle.n, len(seen)))

    def trade_ms(self) -> list[float]:
        return [(self.ours[key] - seen) * 1_000 for key, seen in self.venue.items() if key in self.ours]


async def watch_venue(url: str, times: Times) -> None:
    async with connect(url, max_size=None, compression=None, proxy=None) as socket:
        for coin in COINS:
            await socket.send(json.dumps({"method": "subscribe", "subscription": {"type": "trades", "coin": coin}}))
        async for raw in socket:
            now = time.perf_counter()
            if not raw.startswith("{"):
                continue
            frame = json.loads(raw)
            if frame.get("channel") == "trades":
                for trade in frame["data"]:
                    times.venue_trade(trade["coin"], trade["time"], str(trade["tid"]), now)


async def watch_ours(running: Running, coin: str, times: Times) -> None:
    async with Artery(running.url, running.key) as artery:
        async for event in artery.stream(f"sim:{coin}", types=["TRADE", "CANDLE:1m"]):
            now = time.perf_counter()
            if isinstance(event, Trade):
                times.ours.setdefault((event.coin, event.tid), now)
            elif not isinstance(event, Gap) and isinstance(event, Candle):
                times.candle(event, now)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure() -> list[Row]:
    times = Times()
    async with opened(ART_SIM_TRADES_PER_S="200") as running:
        tasks = [asyncio.create_task(watch_ours(running, coin, times)) for coin in COINS]
        tasks.append(asyncio.create_task(watch_venue(running.sim_url, times)))
        await asyncio.sleep(WARM_S)
        times.venue.clear()
        times.ours.clear()
        # Whole minutes only: of the one that is under way, the venue's socket has not seen every trade.
        times.recording_from_ms = (time.time() * 1_000 // MINUTE_MS + 1) * MINUTE_MS
        await asyncio.sleep(times.recording_from_ms / 1_000 - time.time() + MEASURE_S)
        for task in tasks:
            task.cancel()
        failed = [
            result for result in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(result, Exception)
        ]
    if failed or not times.candle_ms:
        raise SystemExit(f"the run broke: {failed or 'no candle was seen'}")
    trades = times.trade_ms()
    return [
        row("live.trade_p50_ms", percentile(trades, 0.5), "ms", "< 30"),
        row("live.trade_p99_ms", percentile(trades, 0.99), "ms", "< 150"),
        row("live.candle_p50_ms", percentile(times.candle_ms, 0.5), "ms"),
        row("live.candle_p99_ms", percentile(times.candle_ms, 0.99), "ms", "< 1500"),
    ]
