"""Which markets the feed follows: those of the settings always, what others want as far as the limits allow."""

import asyncio
import random
from collections.abc import Collection, Sequence

from artery.errors import ArteryError
from artery.ingest import metrics
from artery.ingest.parts import Parts
from artery.store import demand
from artery.telemetry import logger

_log = logger("ingest")


class Demand:
    """What is wanted of this provider, as the store has it; while the store is away it is what it was."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._wanted: dict[str, None] = {}
        self._said: set[str] = set()

    async def look(self) -> None:
        """Read the store; who came first stays first."""
        try:
            everything = await demand.demanded(self._parts.store)
        except ArteryError as error:
            _log.warning("what is wanted cannot be read for the moment", reason=str(error))
            return
        found = {market.market for market in everything if market.provider == self._parts.provider}
        kept = [coin for coin in self._wanted if coin in found]
        self._wanted = dict.fromkeys([*kept, *sorted(found)])

    async def changed(self) -> None:
        """Wait until it is time to look again: soon, or at once when a relay has said that something changed."""
        stirred = self._parts.stirred
        try:
            async with asyncio.timeout(self._parts.pauses.demand_s * random.uniform(0.8, 1.0)):
                await stirred.wait()
        except TimeoutError:
            pass  # nobody said so: look anyway
        stirred.clear()

    def coins(self, listed: Collection[str] | None) -> tuple[str, ...]:
        """The markets to follow, given those that the venue has (None: it is not known yet)."""
        settings = self._parts.settings.ingest
        coins, refused = choose(
            self._parts.markets,
            list(self._wanted),
            listed,
            demand_max=settings.demand_max,
            markets_max=self._parts.venue.markets_max,
        )
        metrics.DEMAND_REFUSED.set(len(refused))
        for coin in sorted(set(refused) - self._said):
            _log.error("too many markets are wanted: raise ART_INGEST_DEMAND_MAX, if the venue allows it", market=coin)
        self._said = set(refused)
        return coins


def choose(
    always: Sequence[str], wanted: Sequence[str], listed: Collection[str] | None, *, demand_max: int, markets_max: int
) -> tuple[tuple[str, ...], list[str]]:
    """(the markets to follow, those that there is no room for). What the venue does not have is left out."""
    if listed is None:
        return tuple(always), []
    first = [coin for coin in always if coin in listed]
    more = [coin for coin in wanted if coin in listed and coin not in first]
    room = max(0, min(demand_max, markets_max - len(first)))
    return (*first, *more[:room]), more[room:]
