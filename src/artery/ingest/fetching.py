"""One client's request for history, from the venue's REST to the log, page by page."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from artery.errors import ArteryError, BadInput
from artery.ingest import coverage, spans
from artery.ingest.history import SETTLE_MS
from artery.ingest.parts import Parts
from artery.ingest.retry import persist
from artery.ingest.spans import Stretches
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.tickers import parse_ticker
from artery.wire import history
from artery.wire.artery_pb2 import DataRequest

CHUNK = 5_000
"""Candles asked for at once: what the venue's window holds."""
TRIES = 6
AGAIN_S, AGAIN_MOST_S = 0.5, 8.0

Say = Callable[[int, int, int], Awaitable[None]]
"""Told how far it is: thousandths of the range, rows, pages."""


class Fetch:
    """Fetches what is not there yet. Its last page is on the log when `run` returns, with an error if it failed."""

    def __init__(
        self,
        parts: Parts,
        request: DataRequest,
        say: Say,
        is_cancelled: Callable[[], bool],
        asks: asyncio.Semaphore,
    ) -> None:
        self._parts = parts
        self._request = request
        self._say = say
        self._is_cancelled = is_cancelled
        self._asks = asks
        self._pages = self._rows = 0
        self._settled = (0, 0)

    async def run(self) -> tuple[int, int]:
        """(rows, pages) that were fetched."""
        error = ""
        try:
            await self._fetch()
        except ArteryError as failed:
            error = str(failed)
        last = history.closing(self._request, number=self._pages, rows_total=self._rows, error=error)
        await self._append([history.encode(last, event_ts=self._parts.now_ms())])
        if not error:
            await self._remember()
        return self._rows, self._pages + 1

    async def _fetch(self) -> None:
        provider, coin = parse_ticker(self._request.ticker)
        if provider != self._parts.provider:
            raise BadInput(f"{self._request.ticker} is not a market of {self._parts.provider}")
        period = Period(self._request.historical.period_s)
        if period not in self._parts.venue.periods():
            known = ", ".join(map(str, self._parts.venue.periods()))
            raise BadInput(f"{provider} has no candles of {period}: there are {known}")
        todo = chunks(await self._todo(coin, period), CHUNK * period.ms)
        total, done = sum(end - start for start, end in todo), 0
        for start_ms, end_ms in todo:
            if self._is_cancelled():
                raise BadInput("the request was cancelled")
            await self._put(coin, period, await self._ask(coin, period, start_ms, end_ms))
            done += end_ms - start_ms
            await self._say(done * 1_000 // total, self._rows, self._pages)

    async def _todo(self, coin: str, period: Period) -> Stretches:
        """What of the range is over and not on the log."""
        wanted, now_ms = self._request.historical, self._parts.now_ms()
        settled_ms = period.start(now_ms - self._parts.grace_ms - SETTLE_MS)
        # Said of this moment, whatever time it is when all has come: a candle that ends meanwhile is not asked for.
        self._settled = (wanted.start_ms, min(wanted.end_ms, settled_ms))
        known = await persist(
            lambda: coverage.covered(self._parts.store, self._parts.provider, coin, period), "reading the store"
        )
        todo = spans.minus(spans.union([(wanted.start_ms, min(wanted.end_ms, period.start(now_ms)))]), known)
        derived = self._parts.derived
        if not todo or derived is None:
            return todo
        first_ms, last_ms = period.start(todo[0][0]), todo[-1][1]
        held = await derived.held(self._parts.provider, coin, period, first_ms, last_ms)
        return await asyncio.to_thread(spans.minus, todo, held)

    async def _ask(self, coin: str, period: Period, start_ms: int, end_ms: int) -> list[Candle]:
        """The venue's closed candles; what fails for the moment is tried again, but not for ever."""
        wait_s = AGAIN_S
        for tries in range(TRIES):
            try:
                async with self._asks:
                    found = await self._parts.venue.candles(coin, period, start_ms, end_ms)
                return [candle for candle in found if candle.closed and start_ms <= candle.start_ts < end_ms]
            except ArteryError as error:
                if not error.temporary or tries == TRIES - 1 or self._is_cancelled():
                    raise
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(AGAIN_MOST_S, wait_s * 2)
        return []

    async def _put(self, coin: str, period: Period, candles: list[Candle]) -> None:
        entries = []
        for start in range(0, len(candles), history.PAGE_ROWS):
            page = history.page(
                self._request.request_id,
                self._parts.provider,
                coin,
                period,
                candles[start : start + history.PAGE_ROWS],
                number=self._pages,
                last=False,
                client_id=self._request.client_id,
            )
            entries.append(history.encode(page, event_ts=self._parts.now_ms()))
            self._pages += 1
            await asyncio.sleep(0)  # many rows must not hold up live trades
        self._rows += len(candles)
        if entries:
            await self._append(entries)

    async def _append(self, entries: list[dict[str, str]]) -> None:
        await persist(lambda: self._parts.bus.append("history", entries), "writing history to the bus")

    async def _remember(self) -> None:
        provider, coin = parse_ticker(self._request.ticker)
        period = Period(self._request.historical.period_s)
        await persist(
            lambda: coverage.cover(self._parts.store, provider, coin, period, self._settled), "writing to the store"
        )


def chunks(stretches: Stretches, most_ms: int) -> Stretches:
    """The same times, oldest first, in as few pieces of at most this length as can be: one may span what lies between
    two of them, as a question costs the venue more than its rows."""
    found: Stretches = []
    for start, end in stretches:
        at = start
        if found and start < (limit := found[-1][0] + most_ms):
            at = min(end, limit)
            found[-1] = found[-1][0], at
        found += [(piece, min(piece + most_ms, end)) for piece in range(at, end, most_ms)]
    return found
