"""Compares what the venue did with what the bus and the lake hold: nothing lost, nothing twice, every candle right."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec

from artery.bus.base import START, Bus, Entry
from artery.bus.open import open_bus
from artery.lake.reads import Lake
from artery.model import codec, fold
from artery.model.events import Mark, Trade
from artery.model.periods import Period
from artery.model.tickers import ticker

Values = tuple[Decimal, Decimal, Decimal, Decimal, Decimal, int]


class Ledger(msgspec.Struct, frozen=True):
    """What is on the bus: every trade and every hole that was said."""

    trades: list[Trade]
    marks: list[Mark]

    def coins(self) -> list[str]:
        return sorted({trade.coin for trade in self.trades})

    def is_vouched_for(self, coin: str, start_ms: int, period: Period) -> bool:
        """Whether no MARK overlaps this window."""
        return not any(
            mark.coin in ("", coin) and mark.from_ms < start_ms + period.ms and mark.to_ms >= start_ms
            for mark in self.marks
        )


async def read(folder: Path) -> Ledger:
    """Everything on the bus of this folder."""
    return await read_log(f"sqlite:///{folder}/bus.db")


async def read_log(url: str) -> Ledger:
    """Everything on the bus at this address."""
    bus = open_bus(url)
    try:
        trades = [codec.decode(entry.fields, entry_id=entry.id) for entry in await _all(bus, "trade")]
        feed = [codec.decode(entry.fields) for entry in await _all(bus, "feed")]
    finally:
        await bus.close()
    return Ledger(
        [event for event in trades if isinstance(event, Trade)], [event for event in feed if isinstance(event, Mark)]
    )


async def _all(bus: Bus, stream: str) -> list[Entry]:
    rows: list[Entry] = []
    after = START
    while page := await bus.read(stream, after, 5_000):
        rows += page
        after = page[-1].id
    return rows


def lake_trades(lake: Lake, coins: Sequence[str], provider: str = "sim") -> Counter[tuple[str, int, str]]:
    """How often each trade is in the table."""
    found: Counter[tuple[str, int, str]] = Counter()
    for coin in coins:
        for row in lake.trades(ticker(provider, coin), 0, 2**42, 1_000_000).to_pylist():
            found[coin, milliseconds(row["ts"]), row["tid"]] += 1
    return found


def lake_candles(lake: Lake, coin: str, period: Period, since_ms: int) -> list[dict[str, Any]]:
    """The rows of the table `ohlc`, with `start` in milliseconds."""
    rows = lake.candles(ticker("sim", coin), period.seconds, since_ms, 2**42, 100_000).to_pylist()
    return [row | {"start": milliseconds(row["start"])} for row in rows]


def row_values(row: dict[str, Any]) -> Values:
    return (row["open"], row["high"], row["low"], row["close"], row["volume"], row["trades"])


def own_candles(ledger: Ledger, period: Period) -> dict[tuple[str, int], Values]:
    """What the pure fold makes of the bus's trades."""
    return {
        (coin, start): (bar.o, bar.h, bar.l, bar.c, bar.v, bar.n)
        for (_, coin, start), bar in fold.bars(ledger.trades, period).items()
    }


async def venue_candles(sim_url: str, coin: str, period: Period, since_ms: int, until_ms: int) -> dict[int, Values]:
    """What the venue itself says."""
    body = {
        "type": "candleSnapshot",
        "req": {"coin": coin, "interval": str(period), "startTime": since_ms, "endTime": until_ms},
    }
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        answer = (await http.post(sim_url, json=body)).raise_for_status().json()
    return {
        row["t"]: (*(Decimal(row[name]) for name in "ohlcv"), row["n"])  # type: ignore[misc]
        for row in answer
    }


def milliseconds(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1_000)
