"""What the self-test looks at in a running Artery: each journey of its users, as one of them would walk it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec

from artery.app.notes import read_note
from artery.app.relaying import where
from artery.bus.open import open_bus
from artery.client import Artery
from artery.client.frames import Event, Gap
from artery.errors import Unavailable
from artery.lake.open import open_lake
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.settings import Settings

PAST_ROWS_MIN = 30
LATEST_MS = 2**42
ASKED_PERIOD, ASKED_ROWS, ASKED_DAYS_AGO = Period.parse("30m"), 48, 40
"""The history that is asked for: older than what the chart's past brings by itself, so that the venue must be asked."""
DAY_MS = 86_400_000
ANSWER_S = 5.0
SEEN = 3
"""Trades that a client sees before it goes away and comes back."""

Look = Callable[[], Awaitable[None]]


class Journeys:
    """The looks, in the order in which a start makes them come true. Each raises until what it looks for is there."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ticker = ticker(settings.ingest.provider, settings.ingest.markets[0])
        self._lake = open_lake(settings)
        self._seen: list[Trade] = []

    def steps(self) -> list[tuple[str, float, Look]]:
        """Each look with its name and the seconds that it may take on a slow machine."""
        return [
            ("gateway answers", 60.0, self._gateway_answers),
            ("venue connected", 60.0, self._venue_connected),
            ("first trade on the bus", 30.0, self._trade_on_the_bus),
            ("first trades at a WebSocket client", 30.0, self._trades_at_a_client),
            ("a client that was away resumes", 30.0, self._resumes),
            ("first candle at a WebSocket client", 180.0, self._candle_at_a_client),
            ("first tick over ZeroMQ", 60.0, self._tick_over_zeromq),
            ("history read", 120.0, self._history_read),
            ("history asked for, fetched and read", 180.0, self._history_fetched),
            ("TradingView's bars read", 30.0, self._bars_read),
            ("indicators read", 120.0, self._indicators_read),
            ("candle closed", 150.0, self._candle_closed),
            ("rows in the lake", 120.0, self._rows_in_the_lake),
        ]

    def _client(self) -> Artery:
        return Artery(*self._place())

    def _place(self) -> tuple[str, str]:
        note = read_note(self._settings.folder, "serve")
        if note is None or not note.url:
            raise Unavailable("the gateway has not started")
        return note.url, (self._settings.folder / "key").read_text().strip()

    async def _relayed(self) -> Artery:
        relay = await where(self._settings)
        return Artery(*self._place(), relay=(relay.requests, relay.clients))

    async def _get(self, path: str, **query: str | int) -> Any:
        url, key = self._place()
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=ANSWER_S) as http:
            answer = await http.get(path, params=query, headers={"Authorization": f"Bearer {key}"})
        return msgspec.json.decode(answer.content)

    async def _gateway_answers(self) -> None:
        async with self._client() as client:
            need(await client.markets(), "the gateway serves no markets")

    async def _venue_connected(self) -> None:
        states = [feed["state"] for feed in (await self._get("/readyz"))["feeds"]]
        need("live" in states, f"the feed is {', '.join(states) or 'not there'}")

    async def _trade_on_the_bus(self) -> None:
        bus = open_bus(self._settings.bus_url(), self._settings.bus.base)
        try:
            need(await bus.read("trade", limit=1), "no trade is on the bus")
        finally:
            await bus.close()

    async def _trades_at_a_client(self) -> None:
        self._seen.clear()
        async with self._client() as client:
            async for event in client.stream(self._ticker, types=["TRADE"]):
                self._seen += [event] if isinstance(event, Trade) else []
                if len(self._seen) == SEEN:
                    return

    async def _resumes(self) -> None:
        """What came behind the first trade comes again, the same and in the same order."""
        first, *others = self._seen
        async with self._client() as client:
            events = client.stream(self._ticker, types=["TRADE"], since=first.position)
            again = [await anext(events) for _ in others]
        need(again == others, "a client that came back was not given what it had missed")

    async def _candle_at_a_client(self) -> None:
        await self._until("CANDLE:1m", lambda event: isinstance(event, Candle))

    async def _candle_closed(self) -> None:
        await self._until("CANDLE:1m", lambda event: isinstance(event, Candle) and event.closed)

    async def _until(self, series: str, wanted: Callable[[Event | Gap], bool]) -> None:
        async with self._client() as client:
            async for event in client.stream(self._ticker, types=[series]):
                if wanted(event):
                    return

    async def _tick_over_zeromq(self) -> None:
        async with await self._relayed() as client:
            async for tick in client.ticks(self._ticker):
                if isinstance(tick, Trade):
                    return

    async def _history_read(self) -> None:
        async with self._client() as client:
            rows = (await client.history(self._ticker, "1m", since="2h")).num_rows
        need(rows >= PAST_ROWS_MIN, f"only {rows} candles of the last two hours can be read")

    async def _history_fetched(self) -> None:
        start, end = _asked(time.time_ns() // 1_000_000)
        async with await self._relayed() as client:
            rows = (await client.history(self._ticker, str(ASKED_PERIOD), start, end, fetch=True)).num_rows
        need(rows == ASKED_ROWS, f"{rows} of {ASKED_ROWS} candles that were asked for can be read")

    async def _bars_read(self) -> None:
        now_s = time.time_ns() // 1_000_000_000
        span = {"from": now_s - 7_200, "to": now_s}
        bars = await self._get("/udf/history", symbol=self._ticker, resolution="1", **span)
        need(bars["s"] == "ok" and len(bars["t"]) >= PAST_ROWS_MIN, f"/udf/history says {bars['s']}")

    async def _indicators_read(self) -> None:
        async with self._client() as client:
            found = await client.indicators_now(self._ticker, "1m")
        need(found["closed"].get("ema_12") is not None, "the indicators have no values yet")

    async def _rows_in_the_lake(self) -> None:
        trades = await asyncio.to_thread(self._lake.trades, self._ticker, 0, LATEST_MS, 1)
        candles = await asyncio.to_thread(self._lake.candles, self._ticker, 60, 0, LATEST_MS, 1)
        need(trades.num_rows, "no trade is in the lake")
        need(candles.num_rows, "no candle is in the lake")


def _asked(now_ms: int) -> tuple[int, int]:
    """The range of the history that is asked for: whole candles, long ago."""
    end = ASKED_PERIOD.start(now_ms) - ASKED_DAYS_AGO * DAY_MS
    return end - ASKED_ROWS * ASKED_PERIOD.ms, end


def need(condition: object, otherwise: str) -> None:
    """What a look wants to see, or why it has not."""
    if not condition:
        raise Unavailable(otherwise)
