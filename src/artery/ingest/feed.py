"""One leader's term: fence, say what cannot be vouched for, listen, write, and mend."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence

from artery.errors import ArteryError, Fenced
from artery.ingest import metrics
from artery.ingest.clock import FeedClock
from artery.ingest.demand import Demand
from artery.ingest.history import Errands
from artery.ingest.intake import Intake
from artery.ingest.marks import DROPPED, Holes, Span, unwatched, watched
from artery.ingest.parts import Parts
from artery.ingest.status import FeedStatus, StatusLine, keep_saying, say_stopped, state_of
from artery.ingest.symbols import Symbols, are_known, ask_markets
from artery.ingest.takeover import Inheritance, remember_watched, take_over
from artery.ingest.throttle import BookThrottle
from artery.ingest.turns import Turns
from artery.ingest.writer import Appender, Writer
from artery.model.events import Mark
from artery.providers.base import Down, Market, Signal
from artery.telemetry import logger

LISTEN_AGAIN_S = 1.0
LISTEN_AGAIN_MOST_S = 30.0

_log = logger("ingest")


def feed_of(provider: str) -> str:
    """The upstream that a provider belongs to: all of `hyperliquid_…` is one feed."""
    return provider.partition("_")[0]


def lock_key(provider: str) -> str:
    return f"artery:lock:stream:{feed_of(provider)}"


async def serve_term(parts: Parts, epoch: int, cause: str) -> None:
    """Run the feed until cancelled; `Fenced` when a newer leader has written."""
    coins, markets = parts.markets, None
    if not await are_known(parts, coins):  # only then is the venue's slower REST worth waiting for
        markets = await ask_markets(parts)
        coins = listed(coins, markets) or coins
    inheritance = await take_over(parts, epoch, coins, cause)
    feed = Feed(parts, epoch, coins, inheritance, markets)
    try:
        await feed.run()
    except BaseExceptionGroup as group:
        error = first_error(group)
        if isinstance(error, Fenced):
            metrics.FENCED.inc()
        raise error from None


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that says most: a bug before an expected error, being fenced before what followed from it."""
    errors = list(_leaves(group))
    bugs = [error for error in errors if not isinstance(error, ArteryError)]
    fenced = [error for error in errors if isinstance(error, Fenced)]
    return (bugs or fenced or errors)[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def listed(wanted: Sequence[str], markets: Sequence[Market] | None) -> tuple[str, ...]:
    """The markets of the settings, without those that the venue does not have, if it says."""
    if markets is None:
        return tuple(wanted)
    there = {market.key for market in markets}
    for coin in wanted:
        if coin not in there:
            _log.error("the venue has no such market; it is left out", market=coin)
    return tuple(coin for coin in wanted if coin in there)


class Feed:
    """The tasks of a term and what they share."""

    def __init__(
        self,
        parts: Parts,
        epoch: int,
        coins: Sequence[str],
        inheritance: Inheritance,
        markets: Sequence[Market] | None = None,
    ) -> None:
        ingest = parts.settings.ingest
        self._parts = parts
        self._epoch = epoch
        self._coins = tuple(coins)
        self._inheritance = inheritance
        self._watched = inheritance.watched
        self._heard_ms = parts.now_ms()
        self._status = StatusLine(parts.provider, epoch)
        self._intake = Intake(ingest.queue_max)
        self._turns = Turns(
            parts.provider,
            epoch,
            seen=inheritance.seen,
            holes=Holes(coins, parts.grace_ms),
            clock=FeedClock(inheritance.clock_ms, parts.grace_ms),
            throttle=BookThrottle(ingest.books_per_s),
        )
        self._appender = Appender(parts, epoch)
        self._errands = Errands(parts, self._appender, coins, inheritance.watched)
        self._demand = Demand(parts)
        self._symbols = Symbols(parts, self._appender)
        self._markets = markets
        self._writer = Writer(
            parts, self._turns, self._intake, self._appender, head=inheritance.head, marked=self._marked
        )

    async def run(self) -> None:
        """Say the first word, then work until cancelled or fenced."""
        self._turns.holes.inherit(self._inheritance.spans)
        await self._writer.begin(self._inheritance.last)
        await remember_watched(self._parts, self._watched)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._writer.run())
                group.create_task(keep_saying(self._parts, self._look))
                group.create_task(self._errands.run(self._open_holes))
                group.create_task(self._symbols.run(self._markets))
                group.create_task(self._keep_to_demand())
        finally:
            await say_stopped(self._parts, self._epoch)

    async def _listen(self) -> None:
        """Hand on what the venue says; a venue that gives up is asked again."""
        wait_s = LISTEN_AGAIN_S
        while True:
            cause = "ended"
            signals = self._parts.venue.listen(self._coins)
            try:
                async for signal in signals:
                    wait_s = LISTEN_AGAIN_S
                    self._heard_ms = self._parts.now_ms()
                    self._intake.put(signal)
            except ArteryError as error:
                cause = error.code
                _log.warning("the venue stopped talking and is asked again", reason=str(error))
            finally:
                await _close(signals)
            self._intake.put(Down(cause=cause, from_ms=self._heard_ms))
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(LISTEN_AGAIN_MOST_S, wait_s * 2)

    def _marked(self, mark: Mark) -> None:
        self._errands.need(mark.coin, mark.from_ms, mark.to_ms)

    def _open_holes(self) -> list[Span]:
        return self._turns.holes.open_spans(self._parts.now_ms())

    def _look(self) -> FeedStatus:
        """The feed as it is now."""
        now_ms, holes, trouble = self._parts.now_ms(), self._turns.holes, self._appender.trouble
        metrics.AGE_S.set(max(0, now_ms - self._heard_ms) / 1_000)
        state = state_of(up=holes.up, trouble=trouble, heard_ms=self._heard_ms, now_ms=now_ms)
        markets = {coin: self._turns.newest.get(coin, {"trade_ms": 0, "book_ms": 0}) for coin in self._coins}
        return self._status.next(state, now_ms, trouble or holes.cause, markets)

    async def _keep_to_demand(self) -> None:
        """Follow what is wanted, from now on and for ever."""
        while True:
            await self._demand.look()
            coins = self._demand.coins(self._symbols.listed())
            if coins != self._coins:
                await self._follow(coins)
            metrics.MARKETS.set(len(self._coins))
            await self._demand.changed()

    async def _follow(self, coins: tuple[str, ...]) -> None:
        """Add and drop markets. What nobody vouches for of them is said before the next clock: of a new one the day so
        far, or since it was last followed; of a dropped one the candles that are open now."""
        now_ms, vouched_ms = self._parts.now_ms(), self._turns.clock.said_ms or None
        added = [coin for coin in coins if coin not in self._coins]
        dropped = [coin for coin in self._coins if coin not in coins]
        _log.info("other markets are followed from now on", added=added, dropped=dropped)
        holes = self._turns.holes
        for coin in dropped:
            if holes.is_open(coin):
                holes.came_up(now_ms, [coin])  # as far as it goes, it is said whole
            else:
                holes.dropped(Span(coin, vouched_ms or now_ms, now_ms, DROPPED))
        holes.follow(coins)
        holes.inherit(unwatched(coin, self._watched, vouched_ms, now_ms, "demand") for coin in added)
        self._coins, self._watched = coins, watched(coins, self._watched, vouched_ms)
        await self._errands.follow(coins)
        await self._writer.said()  # the first word of a new market, before any of its trades
        self._parts.venue.follow(coins)
        await remember_watched(self._parts, self._watched)


async def _close(signals: AsyncIterator[Signal]) -> None:
    close = getattr(signals, "aclose", None)
    if close is not None:
        await close()
