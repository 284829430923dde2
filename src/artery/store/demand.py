"""Which markets are wanted, by whom: `artery:demand:{holder}:{provider}:{market}`, each for a while.

A holder keeps saying what it wants; what it no longer says lapses. Ingest follows the union of all holders.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable

from artery.errors import ArteryError, BadInput
from artery.model.channels import Channel, check_market, check_provider
from artery.store.base import Store
from artery.telemetry import logger

PREFIX = "artery:demand:"
TTL_S = 30.0
"""A holder that died wants nothing after so long."""
RENEW_S = 10.0
LOOK_S = 0.25

_log = logger("store")


def key(holder: str, market: Channel) -> str:
    """The store's key; a holder's name has no colon."""
    return f"{PREFIX}{holder}:{market.provider}:{market.market}"


def parse(name: str) -> Channel | None:
    """The market in a key, or None where there is none."""
    parts = name.removeprefix(PREFIX).split(":", 2)
    try:
        return Channel(check_provider(parts[1]), check_market(parts[2])) if len(parts) == 3 else None
    except BadInput:
        return None


async def demanded(store: Store) -> list[Channel]:
    """Every market that someone wants, each once."""
    found = (parse(name) for name, _ in await store.scan(PREFIX))
    return list(dict.fromkeys(market for market in found if market is not None))


class Share:
    """One holder's part of the demand, kept in the store."""

    def __init__(self, store: Store, holder: str, wanted: Callable[[], Collection[Channel]], *, leave_s: float) -> None:
        """What is not wanted any more is held for `leave_s`: who comes back finds it still followed."""
        self._store = store
        self._holder = holder
        self._wanted = wanted
        self._leave_s = leave_s
        self._held: dict[Channel, float] = {}
        self._left: dict[Channel, float] = {}

    async def run(self) -> None:
        """Keep saying what is wanted until cancelled; then it lapses by itself, so that a restart drops nothing."""
        while True:
            try:
                await self.look(time.monotonic())
            except ArteryError as error:
                _log.warning("what is wanted cannot be said for the moment", reason=str(error))
                await asyncio.sleep(random.uniform(0.5, 1.0))
            await asyncio.sleep(LOOK_S)

    async def look(self, now: float) -> None:
        """Say what is new at once, the rest now and then; drop what was left long enough ago."""
        wanted = self._wanted()
        for market in self._renewable(wanted, now):
            await self._store.put(key(self._holder, market), b"1", TTL_S)
            self._held[market] = now
        for market in [market for market in self._held if market not in wanted]:
            if now - self._left.setdefault(market, now) >= self._leave_s:
                await self._store.delete(key(self._holder, market))
                del self._held[market], self._left[market]
        for market in [market for market in self._left if market in wanted]:
            del self._left[market]

    def _renewable(self, wanted: Iterable[Channel], now: float) -> list[Channel]:
        new = [market for market in wanted if market not in self._held]
        return new + [market for market, at in self._held.items() if now - at >= RENEW_S]
