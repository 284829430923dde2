"""What there is to subscribe to: the configured markets, all that the venue has, and foreign ones seen on the bus."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from artery.gateway.demand import Demand
from artery.gateway.hub import Hub
from artery.model import symbols
from artery.model.channels import ALL_MIDS, Channel
from artery.model.decimals import canonical
from artery.model.events import EXTERNAL
from artery.model.periods import parse_periods
from artery.model.symbols import Symbol
from artery.model.tickers import ticker
from artery.settings import Settings
from artery.store.base import Store

FEEDS = "artery:feed:"
_FOREIGN_MAX = 10_000


class Market(msgspec.Struct, frozen=True):
    """A market's metadata; version 0 is one of which nothing is known yet."""

    provider: str
    coin: str
    base: str = ""
    quote: str = ""
    tick_size: str = ""
    size_step: str = ""
    status: str = "unknown"
    version: int = 0
    valid_from: int = 0


class Catalog:
    """Known channels. Configured ones are known from the start, so that nobody comes too early."""

    def __init__(self, settings: Settings, store: Store, hub: Hub) -> None:
        self.demand = Demand(settings)
        self._provider = settings.ingest.provider
        self.periods = parse_periods(settings.pipeline.periods)
        self._store = store
        self._hub = hub
        self._markets = {
            (self._provider, coin): Market(self._provider, coin, base=coin) for coin in settings.ingest.markets
        }
        self._channels: set[str] = set()
        self._followed: set[tuple[str, str]] = set()
        self._values: dict[str, bytes] = {}
        self._index()

    def known(self, channel: str) -> bool:
        return channel in self._channels

    def positions(self, channel: str, types: frozenset[str]) -> Mapping[str, str]:
        return self._hub.positions(channel, types)

    def take(self, owner: str, channels: Sequence[str]) -> str:
        return self.demand.take(owner, channels)

    def give(self, owner: str, channel: str) -> None:
        self.demand.give(owner, channel)

    def channels(self) -> Iterable[str]:
        return sorted(self._channels)

    async def refresh(self) -> None:
        """Take up what ingest has found, which may not be committed to the lake yet, and which markets it follows."""
        values = dict(await self._store.scan(symbols.PREFIX))
        fresh = [symbols.read(raw) for name, raw in values.items() if self._values.get(name) != raw]
        self._values = values
        self._followed = {
            (name.removeprefix(FEEDS), coin)
            for name, raw in await self._store.scan(FEEDS)
            for coin in _decoded(raw).get("markets") or ()
        }
        self.learn(symbol for symbol in fresh if symbol is not None)

    def learn(self, found: Iterable[Symbol]) -> None:
        """Take up versions of markets' metadata, wherever they come from: the newest of each stays."""
        size = len(self._markets)
        for symbol in found:
            known = self._markets.get((symbol.provider, symbol.coin))
            if known is None or symbol.version > known.version:
                self._markets[symbol.provider, symbol.coin] = _market(symbol)
        if len(self._markets) != size:
            self._index()

    def see(self, provider: str, coin: str) -> None:
        """A foreign producer's market is known once it was seen."""
        if provider == EXTERNAL and (provider, coin) not in self._markets and len(self._markets) < _FOREIGN_MAX:
            self._markets[provider, coin] = Market(provider, coin, base=coin)
            self._index()

    def markets(self) -> Iterable[Market]:
        """Every market, in the order of the settings, then as they were found."""
        return self._markets.values()

    def market_rows(self) -> list[dict[str, Any]]:
        """The rows of `/v1/markets`, in the order of the settings, then by name."""
        return [self._row(market) for market in self._markets.values()]

    async def provider_rows(self) -> list[dict[str, Any]]:
        """The rows of `/v1/providers`."""
        states = dict(await self._store.scan(FEEDS))
        return [
            _provider(name, states.get(FEEDS + name), [str(period) for period in self.periods])
            for name in dict.fromkeys(name for name, _ in self._markets)
        ]

    def _row(self, market: Market) -> dict[str, Any]:
        channel = str(Channel(market.provider, market.coin))
        return {
            "provider": market.provider,
            "coin": market.coin,
            "channel": channel,
            "ticker": ticker(market.provider, market.coin),
            "base": market.base or market.coin,
            "quote": market.quote,
            "tick_size": market.tick_size,
            "size_step": market.size_step,
            "status": market.status,
            "version": market.version,
            "valid_from": market.valid_from,
            "followed": (market.provider, market.coin) in self._followed,
            "simulated": market.provider == "sim",
            "last": self._last(channel),
        }

    def _last(self, channel: str) -> str | None:
        trade = self._hub.newest(channel, "TRADE")
        if trade is None:
            return None
        try:
            return msgspec.json.decode(trade.data, type=dict[str, str]).get("px")
        except msgspec.MsgspecError:
            return None

    def _index(self) -> None:
        self._channels = {str(Channel(provider, coin)) for provider, coin in self._markets}
        self._channels |= {str(Channel(provider, ALL_MIDS)) for provider, _ in self._markets}


def _market(symbol: Symbol) -> Market:
    return Market(
        provider=symbol.provider,
        coin=symbol.coin,
        base=symbol.base,
        quote=symbol.quote,
        tick_size=canonical(symbol.tick_size),
        size_step=canonical(symbol.size_step),
        status=symbol.status,
        version=symbol.version,
        valid_from=symbol.valid_from,
    )


def _decoded(raw: bytes | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _provider(name: str, raw: bytes | None, periods: Sequence[str]) -> dict[str, Any]:
    foreign = name == EXTERNAL
    return {
        "provider": name,
        "exchange": ticker(name, "").rstrip(":"),
        "simulated": name == "sim",
        "state": str(_decoded(raw).get("state", "off")),
        "capabilities": {"trades": not foreign, "books": not foreign, "candles": list(periods)},
    }
