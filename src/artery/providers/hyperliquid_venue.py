"""Hyperliquid, and the simulated venue that speaks like it, as a `Venue`: one shared socket, and REST by httpx."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import httpx
import msgspec

from artery.errors import BadInput, BadSetting, TooMuch, Unavailable
from artery.model.channels import check_market
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.providers import hyperliquid_rest as rest
from artery.providers.base import Market, Signal
from artery.providers.connection import Connection, is_loopback, wall_ms
from artery.providers.hyperliquid import HyperliquidDialect
from artery.providers.timing import Budget, Timing, spend
from artery.telemetry import counter, logger

WS_URL = "wss://api.hyperliquid.xyz/ws"
REST_URL = "https://api.hyperliquid.xyz/info"
WEIGHT_PER_MIN = 1_200.0
ANSWER_MAX = 16 * 1024 * 1024
REQUESTS_MAX = 64
REQUEST_S = 10.0
MARKETS_MAX = 480
"""The venue allows 1,000 subscriptions: two a market, one for all mid prices, and room for markets that are tried."""

_requests = counter("provider_requests_total", "Requests to a venue's REST, by outcome.", "provider", "type", "outcome")
_bad = counter("provider_bad_rows_total", "Rows of a venue's REST that were left out.", "provider", "type")
_log = logger("providers")


class HyperliquidVenue:
    """See `providers.base.Venue`. `weight_per_min` of 0 means no limit."""

    def __init__(
        self,
        provider: str = "hyperliquid_perp",
        ws_url: str = WS_URL,
        rest_url: str = REST_URL,
        *,
        fast_books: bool = False,
        weight_per_min: float = WEIGHT_PER_MIN,
        timing: Timing | None = None,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self.provider = provider
        self.markets_max = MARKETS_MAX
        dialect = HyperliquidDialect(provider, fast_books=fast_books)
        self._connection = Connection(ws_url, dialect, timing=timing, wall=wall)
        self._rest_url, self._wall = rest_url, wall
        self._budget = Budget(weight_per_min, time.monotonic()) if weight_per_min else None
        self._http: httpx.AsyncClient | None = None

    def listen(self, coins: Sequence[str]) -> AsyncGenerator[Signal, None]:
        """Close the iterator (`contextlib.aclosing`) to end the connection at once."""
        return self._connection.listen([check_market(coin) for coin in coins])

    def follow(self, coins: Sequence[str]) -> None:
        self._connection.follow([check_market(coin) for coin in coins])

    def periods(self) -> Sequence[Period]:
        return rest.PERIODS

    async def markets(self) -> list[Market]:
        meta = await self._ask({"type": "meta"}, 20)
        mids = await self._ask({"type": "allMids"}, 2)
        return rest.read_markets(meta, mids, self.provider)

    async def recent_trades(self, coin: str) -> list[Trade]:
        body = await self._ask({"type": "recentTrades", "coin": coin}, 21)
        trades, bad = rest.read_trades(body, self.provider, self._wall())
        self._count_bad("recentTrades", bad)
        return trades

    async def candles(self, coin: str, period: Period, start_ms: int, end_ms: int) -> list[Candle]:
        if period not in rest.PERIODS:
            raise BadInput(f"{self.provider} has no candles of {period}; ask for one of its own periods")
        found: dict[int, Candle] = {}
        ranges, asked = [(start_ms, end_ms)], 0
        while ranges:
            start, end = ranges.pop()
            if start >= end:
                continue
            asked += 1
            if asked > REQUESTS_MAX:
                raise TooMuch(f"{coin} {period} needs more than {REQUESTS_MAX} requests: ask for a shorter time")
            candles, starts = await self._page(coin, period, start, end)
            found |= {candle.start_ts: candle for candle in candles}
            ranges += rest.missing(start, end, period, starts)
        return [found[start] for start in sorted(found)]

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _page(self, coin: str, period: Period, start_ms: int, end_ms: int) -> tuple[list[Candle], list[int]]:
        """One answer, cut to what was asked for."""
        weight = rest.candle_weight(period, start_ms, end_ms)
        body = await self._ask(rest.candle_request(coin, period, start_ms, end_ms), weight)
        candles, starts, bad = rest.read_candles(body, self.provider, self._wall())
        self._count_bad("candleSnapshot", bad)
        wanted = [
            candle
            for candle in candles
            if start_ms <= candle.start_ts < end_ms and candle.coin == coin and candle.period == period
        ]
        return wanted, [start for start in starts if start_ms <= start < end_ms]

    async def _ask(self, request: dict[str, Any], weight: int) -> bytes:
        """The body of the venue's answer, or an error that says whether to try again."""
        kind = request["type"]
        try:
            body = await self._post(msgspec.json.encode(request), weight)
        except (Unavailable, BadInput, TooMuch) as error:
            _requests.labels(self.provider, kind, error.code).inc()
            raise
        _requests.labels(self.provider, kind, "ok").inc()
        return body

    async def _post(self, content: bytes, weight: int) -> bytes:
        if self._budget is not None:
            await spend(self._budget, weight)
        try:
            async with (
                asyncio.timeout(REQUEST_S),
                self._client().stream("POST", self._rest_url, content=content) as response,
            ):
                _check_status(response.status_code)
                return await _read(response)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise BadSetting(f"ART_VENUE_REST_URL is not an address: {error}") from error
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            raise Unavailable(f"the venue's REST cannot be reached ({type(error).__name__})") from error

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(
                timeout=REQUEST_S,
                trust_env=not is_loopback(self._rest_url),
                headers={"content-type": "application/json"},
            )
        return self._http

    def _count_bad(self, kind: str, bad: int) -> None:
        if bad:
            _bad.labels(self.provider, kind).inc(bad)
            _log.warning("rows of the venue could not be read", provider=self.provider, type=kind, rows=bad)


def _check_status(status: int) -> None:
    if status == 429 or status >= 500:
        raise Unavailable(f"the venue's REST answered {status}")
    if status != 200:
        raise BadInput(f"the venue's REST refused the request with {status}")


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > ANSWER_MAX:
            raise Unavailable(f"the venue's answer is larger than {ANSWER_MAX} bytes")
    return bytes(body)
