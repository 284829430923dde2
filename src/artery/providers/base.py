"""What a venue offers to ingest. Parsing is pure; `Venue` is the one object that talks to the world."""

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Protocol

import msgspec

from artery.model.events import Book, Candle, Mids, Trade
from artery.model.periods import Period


class Market(msgspec.Struct, frozen=True):
    """One instrument at a venue, as its metadata has it."""

    provider: str
    key: str
    base: str
    quote: str
    tick_size: Decimal
    size_step: Decimal
    status: str = "open"


class Batch(msgspec.Struct, frozen=True):
    """What one read of the socket brought, in the venue's order; `epoch` and `seq` are not set yet."""

    events: list[Trade | Book | Mids]
    received_ms: int


class Up(msgspec.Struct, frozen=True):
    """From now on these markets are watched: every subscription was acknowledged."""

    coins: tuple[str, ...]
    at_ms: int


class Down(msgspec.Struct, frozen=True):
    """Since `from_ms` these markets are not watched (all, if `coins` is empty); an `Up` will follow."""

    cause: str
    from_ms: int
    coins: tuple[str, ...] = ()


Signal = Batch | Up | Down


class Venue(Protocol):
    """One venue. Values in, values out; every wait has an end, every answer a size limit."""

    provider: str
    markets_max: int
    """How many markets its limits allow to be followed at once."""

    def listen(self, coins: Sequence[str]) -> AsyncIterator[Signal]:
        """What the venue says, for ever: it reconnects, resubscribes, pings and notices silence by itself.
        Order is the venue's. A frame that cannot be parsed is counted and left out."""
        ...

    def follow(self, coins: Sequence[str]) -> None:
        """From now on `listen` tells of these markets, while it runs: an `Up` tells when an added one is watched, and
        of a dropped one nothing more is said."""
        ...

    async def markets(self) -> list[Market]: ...

    async def candles(self, coin: str, period: Period, start_ms: int, end_ms: int) -> list[Candle]:
        """The venue's own candles that start in [start_ms, end_ms), oldest first; those without volume are left
        out. `closed` is set on those whose end has passed."""
        ...

    async def recent_trades(self, coin: str) -> list[Trade]:
        """The newest trades that REST still has, oldest first."""
        ...

    def periods(self) -> Sequence[Period]:
        """The periods of the venue's own candles."""
        ...

    async def close(self) -> None: ...
