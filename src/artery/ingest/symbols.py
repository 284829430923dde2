"""The venue's markets and what they are like: a new version on the log whenever something has changed."""

import asyncio
from collections.abc import Sequence

import msgspec

from artery.errors import ArteryError, BadEvent
from artery.ingest import metrics
from artery.ingest.parts import Parts
from artery.ingest.retry import persist
from artery.ingest.takeover import back
from artery.ingest.writer import Appender
from artery.model import symbols
from artery.model.symbols import DELISTED, Symbol
from artery.providers.base import Market
from artery.telemetry import logger

WAIT_S = 5.0
"""How long the venue may take to answer."""
AGAIN_S = 5.0
"""How soon it is asked again if it has not answered, or was not asked yet in this term."""
BACK_MAX = 20_000
"""So many entries of the log are looked at for the newest versions; what is older is in the store."""
MARKETS_MAX = 10_000

_log = logger("ingest")


async def ask_markets(parts: Parts) -> list[Market] | None:
    """The venue's markets; None while it does not say."""
    try:
        async with asyncio.timeout(WAIT_S):
            return (await parts.venue.markets())[:MARKETS_MAX]
    except (ArteryError, TimeoutError) as error:
        reason = str(error) or f"no answer in {WAIT_S:g} s"
        _log.warning("the venue's markets could not be had and are asked for again", reason=reason)
        return None


async def are_known(parts: Parts, coins: Sequence[str]) -> bool:
    """Whether the venue was found to have these markets before."""
    try:
        found = [symbols.read(await parts.store.get(symbols.key(parts.provider, coin))) for coin in coins]
    except ArteryError:
        return False
    return all(symbol is not None and symbol.status != DELISTED for symbol in found)


class Symbols:
    """Keeps log and store to what the venue says. Under one leader's epoch: what it reads once it has fenced the older
    ones is all there is, so each version is on the log once and none is left out."""

    def __init__(self, parts: Parts, appender: Appender) -> None:
        self._parts = parts
        self._appender = appender
        self._known: dict[str, Symbol] = {}
        self._stored: dict[str, bytes] = {}

    def listed(self) -> set[str] | None:
        """The markets that the venue has; None while that is not known."""
        return {coin for coin, symbol in self._known.items() if symbol.status != DELISTED} if self._known else None

    async def run(self, markets: Sequence[Market] | None) -> None:
        """Work until cancelled, beginning with `markets` if the venue was asked already."""
        await persist(self._load, "reading what is known of the markets")
        while True:
            if markets is not None:
                await self.take(markets)
                self._parts.stirred.set()
            every_s = self._parts.settings.ingest.symbols_s
            await asyncio.sleep(min(AGAIN_S, every_s) if markets is None else every_s)
            markets = await ask_markets(self._parts)

    async def take(self, markets: Sequence[Market]) -> None:
        """Write what has changed: the log first, then the store's newest version."""
        fresh = newer(self._known, markets, self._parts.provider, self._parts.now_ms())
        if fresh:
            await self._appender.append("symbol", [symbols.encode(symbol) for symbol in fresh])
            metrics.SYMBOLS.inc(len(fresh))
            _log.info("markets have changed", markets=len(fresh), first=fresh[0].coin)
            self._known |= {symbol.coin: symbol for symbol in fresh}
        await self._store()

    async def _store(self) -> None:
        """Whoever is in a hurry reads the store: what is there is on the log already."""
        try:
            for symbol in self._known.values():
                value = symbols.write(symbol)
                if self._stored.get(symbol.coin) != value:
                    await self._parts.store.put(symbols.key(symbol.provider, symbol.coin), value)
                    self._stored[symbol.coin] = value
        except ArteryError as error:
            _log.warning("the markets' metadata cannot be written", reason=str(error))

    async def _load(self) -> None:
        """The newest version of each market: of the log, and of the store, which remembers what was trimmed."""
        prefix = symbols.key(self._parts.provider, "")
        self._stored = {name.removeprefix(prefix): value for name, value in await self._parts.store.scan(prefix)}
        found = [symbol for value in self._stored.values() if (symbol := symbols.read(value))]
        async for entry in back(self._parts, "symbol", BACK_MAX):
            if entry.fields.get("provider") == self._parts.provider:
                try:
                    found.append(symbols.decode(entry.fields))
                except BadEvent as error:
                    _log.warning("a market's metadata cannot be read", position=entry.id, reason=str(error))
        for symbol in found:
            known = self._known.get(symbol.coin)
            if known is None or symbol.version > known.version:
                self._known[symbol.coin] = symbol


def newer(known: dict[str, Symbol], markets: Sequence[Market], provider: str, now_ms: int) -> list[Symbol]:
    """The versions that follow from what the venue says now; a market that it does not name any more is delisted."""
    said = {market.key: _symbol(market, now_ms) for market in markets if market.provider == provider}
    gone = [msgspec.structs.replace(old, status=DELISTED) for coin, old in known.items() if coin not in said]
    return [
        msgspec.structs.replace(symbol, version=old.version + 1 if old else 1, valid_from=now_ms)
        for symbol in [*said.values(), *gone]
        if (old := known.get(symbol.coin)) is None or not symbol.says_the_same(old)
    ]


def _symbol(market: Market, now_ms: int) -> Symbol:
    return Symbol(
        provider=market.provider,
        coin=market.key,
        base=market.base,
        quote=market.quote,
        tick_size=market.tick_size,
        size_step=market.size_step,
        status=market.status,
        valid_from=now_ms,
    )
