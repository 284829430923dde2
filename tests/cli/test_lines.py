"""Events as people read them."""

from decimal import Decimal

from artery.cli.lines import CANDLE_COLUMNS, candle_cells, line_of
from artery.client import Gap
from artery.model.channels import Channel
from artery.model.events import Book, Candle, Mids, Trade
from artery.model.periods import Period

AT = 1_730_000_000_123


def test_each_kind_of_event_has_its_line() -> None:
    trade = Trade(
        provider="sim", event_ts=AT, coin="BTC", ts=AT, tid="1", px=Decimal("97000.5"), sz=Decimal("0.2"), side="B"
    )
    assert line_of(trade) == "03:33:20.123  BTC    trade   buy  0.2 at 97000.5"
    book = Book(provider="sim", event_ts=AT, coin="BTC", ts=AT, bids=((Decimal(1), Decimal(2)),), asks=())
    assert line_of(book) == "03:33:20.123  BTC    book    bid 2 at 1, ask none"
    assert line_of(Mids(provider="sim", event_ts=AT, mids={"BTC": Decimal(1)})) == "03:33:20.123  mids    1 markets"
    candle = Candle(
        provider="sim", event_ts=AT, coin="BTC", period=Period.parse("1m"), start_ts=1_729_999_980_000,
        o=Decimal(1), h=Decimal(3), l=Decimal(1), c=Decimal(2), v=Decimal("0.5"), closed=True,
    )  # fmt: skip
    assert line_of(candle) == "03:33:20.123  BTC    1m  candle of 2024-10-27 03:33:00 (closed) o 1 h 3 l 1 c 2 v 0.5"


def test_a_gap_says_when_and_why() -> None:
    gap = Gap(Channel("sim", "BTC"), "TRADE", "upstream", from_ms=1_730_000_000_000, to_ms=1_730_000_005_000)
    assert line_of(gap) == "2024-10-27 03:33:20 – 2024-10-27 03:33:25  gap in TRADE: upstream"


def test_a_row_of_history_is_exact_and_without_trailing_zeros() -> None:
    row = {
        "start": 1_730_000_000_000,
        **dict.fromkeys("ohlcv", Decimal("1.500000000000000000")),
        "n": 7,
        "closed": True,
    }
    assert dict(zip(CANDLE_COLUMNS, candle_cells(row), strict=True)) == {
        "start": "2024-10-27T03:33:20Z",
        **dict.fromkeys(("open", "high", "low", "close", "volume"), "1.5"),
        "trades": 7,
        "closed": True,
    }
