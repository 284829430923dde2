"""Events for tests, short to write."""

from decimal import Decimal

from artery.model.events import Book, Mids, Trade
from artery.providers.base import Batch

T0 = 1_790_000_000_000 // 86_400_000 * 86_400_000 + 10 * 3_600_000
"""Ten o'clock of a day in UTC."""


def trade(tid: int, ts: int = T0, coin: str = "BTC", provider: str = "sim") -> Trade:
    return Trade(
        provider=provider,
        event_ts=ts,
        coin=coin,
        ts=ts,
        tid=str(tid),
        px=Decimal(100 + tid % 10),
        sz=Decimal("0.5"),
        side="B" if tid % 2 else "S",
    )


def book(bid: int, ts: int = T0, coin: str = "BTC") -> Book:
    return Book(
        provider="sim",
        event_ts=ts,
        coin=coin,
        ts=ts,
        bids=((Decimal(bid), Decimal(1)),),
        asks=((Decimal(bid + 1), Decimal(1)),),
    )


def mids(ts: int = T0) -> Mids:
    return Mids(provider="sim", event_ts=ts, mids={"BTC": Decimal(100)})


def batch(*events: Trade | Book | Mids, at: int | None = None) -> Batch:
    return Batch(list(events), at if at is not None else max((event.event_ts for event in events), default=T0))
