"""Events and messages that gateway tests are made of."""

from decimal import Decimal

import msgspec

from artery.live.base import Message
from artery.model import codec
from artery.model.events import Book, Candle, Mark, MarketEvent, Mids, Trade
from artery.model.periods import Period

T0 = 1_730_000_040_000
"""The start of a minute."""
BTC = "artery:stream:sim:BTC"
ETH = "artery:stream:sim:ETH"
MIDS = "artery:stream:sim:*"
MINUTE = Period.parse("1m")


def trade(seq: int, *, epoch: int = 1, coin: str = "BTC", px: int = 100, ts: int | None = None) -> Trade:
    when = T0 + seq * 10 if ts is None else ts
    return Trade(
        provider="sim", coin=coin, event_ts=when, epoch=epoch, seq=seq, ts=when, tid=f"{epoch}-{seq}",
        px=Decimal(px), sz=Decimal("0.5"), side="B",
    )  # fmt: skip


def book(seq: int, *, epoch: int = 1, coin: str = "BTC") -> Book:
    when = T0 + seq * 10
    bids = tuple((Decimal(100 - level), Decimal(seq)) for level in range(1, 11))
    asks = tuple((Decimal(100 + level), Decimal(seq)) for level in range(1, 11))
    return Book(provider="sim", coin=coin, event_ts=when, epoch=epoch, seq=seq, ts=when, bids=bids, asks=asks)


def mids(ms: int) -> Mids:
    return Mids(provider="sim", event_ts=ms, mids={"BTC": Decimal(100), "ETH": Decimal(10)})


def candle(
    minute: int,
    *,
    seq: int = 1,
    close: int = 100,
    closed: bool = True,
    rev: int = 0,
    coin: str = "BTC",
    provider: str = "sim",
    event_ts: int = 0,
    epoch: int = 1,
) -> Candle:
    start = T0 + minute * MINUTE.ms
    return Candle(
        provider=provider, coin=coin, period=MINUTE, start_ts=start, o=Decimal(99), h=Decimal(999), l=Decimal(1),
        c=Decimal(close), v=Decimal("1.5"), n=3, closed=closed, rev=rev, event_ts=event_ts or start + MINUTE.ms,
        epoch=epoch, seq=seq if epoch else 0,
    )  # fmt: skip


def mark(
    epoch: int,
    from_ms: int,
    to_ms: int,
    *,
    coin: str = "",
    cause: str = "disconnect",
    last: dict[str, str] | None = None,
) -> Mark:
    return Mark(
        provider="sim", epoch=epoch, ts=to_ms, from_ms=from_ms, to_ms=to_ms, cause=cause, coin=coin,
        last=last or {},
    )  # fmt: skip


def message(event: MarketEvent) -> Message:
    """As ingest publishes it."""
    return Message(str(event.channel), event.series, str(event.position), msgspec.json.encode(codec.encode(event)))
