"""What there is to subscribe to: the configured markets, those in the store, and foreign ones seen on the bus."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from artery.gateway.hub import Hub
from artery.model.channels import ALL_MIDS, Channel
from artery.model.events import EXTERNAL
from artery.model.periods import DERIVED
from artery.model.tickers import ticker
from artery.settings import Settings
from artery.store.base import Store

MARKETS = "artery:market:"
FEEDS = "artery:feed:"
_FOREIGN_MAX = 10_000


class Market(msgspec.Struct, frozen=True):
    """A market's metadata as ingest has put it into the store."""

    provider: str
    coin: str
    base: str = ""
    quote: str = ""
    tick_size: str = ""
    size_step: str = ""
    status: str = "unknown"


class Catalog:
    """Known channels. Configured ones are known from the start, so that nobody comes too early."""

    def __init__(self, settings: Settings, store: Store, hub: Hub) -> None:
        self._provider = settings.ingest.provider
        self._store = store
        self._hub = hub
        self._markets = {
            (self._provider, coin): Market(self._provider, coin, base=coin) for coin in settings.ingest.markets
        }
        self._channels: set[str] = set()
        self._index()

    def known(self, channel: str) -> bool:
        return channel in self._channels

    def positions(self, channel: str, types: frozenset[str]) -> Mapping[str, str]:
        return self._hub.positions(channel, types)

    def channels(self) -> Iterable[str]:
        return sorted(self._channels)

    async def refresh(self) -> None:
        """Take up the markets that ingest has found."""
        for _, raw in await self._store.scan(MARKETS):
            try:
                market = msgspec.json.decode(raw, type=Market)
            except msgspec.MsgspecError:
                continue
            self._markets[market.provider, market.coin] = market
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
        return [_provider(name, states.get(FEEDS + name)) for name in dict.fromkeys(name for name, _ in self._markets)]

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


def _provider(name: str, raw: bytes | None) -> dict[str, Any]:
    state = "off"
    if raw is not None:
        try:
            state = str(msgspec.json.decode(raw, type=dict[str, Any]).get("state", "off"))
        except msgspec.MsgspecError:
            state = "off"
    foreign = name == EXTERNAL
    return {
        "provider": name,
        "exchange": ticker(name, "").rstrip(":"),
        "simulated": name == "sim",
        "state": state,
        "capabilities": {"trades": not foreign, "books": not foreign, "candles": [str(period) for period in DERIVED]},
    }
