"""Which markets a relay's subscribers want followed: the first one adds to demand, the last one out takes it away."""

import asyncio
import random
import secrets
from collections.abc import Collection, Iterable
from itertools import chain, islice

from artery.errors import ArteryError, BadInput
from artery.model import symbols
from artery.model.channels import Channel
from artery.model.tickers import parse_ticker
from artery.relay import metrics
from artery.settings import Settings
from artery.store.base import Store
from artery.store.demand import Share
from artery.telemetry import logger
from artery.wire.listeners import Listeners

LOOK_S = 0.25
UNKNOWN_S = 5.0
"""A ticker that nobody knows is looked up again after so long: the venue may not have been asked yet."""
JUDGED_MAX = 500
"""Tickers that are looked up at one look, those that never were first: each is a read of the store."""

_log = logger("relay")


class Demand:
    """Turns subscriptions into demand, as far as the venue has the market and the limit allows."""

    def __init__(self, settings: Settings, store: Store, listeners: Listeners) -> None:
        self._settings = settings
        self._store = store
        self._listeners = listeners
        self._seen = -1
        self._tickers: frozenset[str] = frozenset()
        self._wanted: dict[str, Channel] = {}
        self._refused: set[str] = set()
        self._said: set[str] = set()
        self._unknown: dict[str, float] = {}
        leave_s = settings.ingest.demand_leave_s
        self._share = Share(store, f"relay-{secrets.token_hex(8)}", self.wanted, leave_s=leave_s)

    def wanted(self) -> Collection[Channel]:
        return self._wanted.values()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._share.run())
            while True:
                try:
                    await self.look(asyncio.get_running_loop().time())
                except ArteryError as error:
                    _log.warning("what is wanted cannot be judged for the moment", reason=str(error))
                await asyncio.sleep(LOOK_S * random.uniform(0.8, 1.2))

    async def look(self, now: float) -> None:
        """Take up who came and who left since the last time."""
        if self._listeners.changes != self._seen:
            self._seen = self._listeners.changes
            self._tickers = frozenset(live_tickers(self._listeners.all()))
            self._wanted = {name: market for name, market in self._wanted.items() if name in self._tickers}
            self._refused &= self._tickers if self._extra() >= self._settings.relay.demand_max else frozenset()
            self._said &= self._tickers
            self._unknown = {name: due for name, due in self._unknown.items() if name in self._tickers}
        never = self._tickers - self._wanted.keys() - self._refused - self._unknown.keys()
        again = [name for name, due in self._unknown.items() if now >= due]
        for name in islice(chain(never, again), JUDGED_MAX):
            await self._judge(name, now)
        metrics.WANTED.set(len(self._wanted))

    async def _judge(self, name: str, now: float) -> None:
        market = Channel(*parse_ticker(name))
        known = symbols.read(await self._store.get(symbols.key(market.provider, market.market)))
        self._unknown.pop(name, None)
        if known is None:
            self._unknown[name] = now + UNKNOWN_S  # behind all others that wait
            return
        if not self._is_usual(market) and self._extra() >= self._settings.relay.demand_max:
            self._refused.add(name)
            self._say_refused(name)
            return
        self._wanted[name] = market

    def _say_refused(self, name: str) -> None:
        if name not in self._said:
            self._said.add(name)
            metrics.REFUSED.labels("clients", "demand").inc()
            _log.error("too many markets are wanted here: raise ART_RELAY_DEMAND_MAX", ticker=name)

    def _extra(self) -> int:
        return sum(not self._is_usual(market) for market in self._wanted.values())

    def _is_usual(self, market: Channel) -> bool:
        ingest = self._settings.ingest
        return market.provider == ingest.provider and market.market in ingest.markets


def live_tickers(topics: Iterable[bytes]) -> Iterable[str]:
    """The tickers of those topics that carry live data, `{ticker}|tick` and `{ticker}|ohlc:…`."""
    for topic in topics:
        name, sign, rest = topic.partition(b"|")
        if sign and rest.startswith((b"tick", b"ohlc")):
            try:
                text = name.decode()
                parse_ticker(text)
            except (UnicodeDecodeError, BadInput):
                continue
            yield text
