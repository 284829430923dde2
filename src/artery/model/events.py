"""The events that Artery carries, as values."""

from decimal import Decimal
from typing import Literal

import msgspec

from artery.model.channels import ALL_MIDS, Channel
from artery.model.periods import Period
from artery.model.series import Position

EXTERNAL = "external"
Side = Literal["B", "S"]
Level = tuple[Decimal, Decimal]


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all events have. `epoch` and `seq` are 0 where a foreign producer gave none."""

    provider: str
    event_ts: int
    epoch: int = 0
    seq: int = 0

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.seq, self.event_ts)


class Trade(Event, frozen=True, kw_only=True):
    """One trade; `(provider, coin, ts, tid)` names it for ever."""

    coin: str
    ts: int
    tid: str
    px: Decimal
    sz: Decimal
    side: Side

    @property
    def channel(self) -> Channel:
        return Channel(self.provider, self.coin)

    @property
    def series(self) -> str:
        return "TRADE"


class Book(Event, frozen=True, kw_only=True):
    """The best levels of an order book; bids fall, asks rise."""

    coin: str
    ts: int
    bids: tuple[Level, ...]
    asks: tuple[Level, ...]
    depth: int = 20

    @property
    def channel(self) -> Channel:
        return Channel(self.provider, self.coin)

    @property
    def series(self) -> str:
        return "BOOK_TOPN"


class Candle(Event, frozen=True, kw_only=True):
    """A candle; of two with the same key the one with the newer `version` holds."""

    coin: str
    period: Period
    start_ts: int
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741 (the wire's own name)
    c: Decimal
    v: Decimal
    n: int = 0
    closed: bool = False
    rev: int = 0
    up_to: str = ""

    @property
    def channel(self) -> Channel:
        return Channel(self.provider, self.coin)

    @property
    def series(self) -> str:
        return f"CANDLE:{self.period}"

    @property
    def key(self) -> tuple[str, str, int, int]:
        return (self.provider, self.coin, self.period.seconds, self.start_ts)

    @property
    def version(self) -> tuple[bool, int, int]:
        return (self.closed, self.rev, self.event_ts)

    @property
    def end_ts(self) -> int:
        return self.start_ts + self.period.ms


class Mids(Event, frozen=True, kw_only=True):
    """All mid prices of a venue in one frame; live only, never on the bus."""

    mids: dict[str, Decimal]

    @property
    def channel(self) -> Channel:
        return Channel(self.provider, ALL_MIDS)

    @property
    def series(self) -> str:
        return "MIDS"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A feed says: between these times I cannot vouch for these markets (all of them, if `coin` is empty).

    `up_to` is the position in the trade stream that it follows; `last` holds the last position of each
    series (`coin|series`) that the writer knew of the epoch before.
    """

    provider: str
    epoch: int
    ts: int
    from_ms: int
    to_ms: int
    cause: str
    coin: str = ""
    up_to: str = "0"
    last: dict[str, str] = {}


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """A feed says: every trade up to `ts` is written, at the latest at `up_to` of the trade stream."""

    provider: str
    epoch: int
    ts: int
    up_to: str = "0"


MarketEvent = Trade | Book | Candle | Mids
FeedEvent = Mark | Clock
