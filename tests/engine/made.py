"""A real bus, store and lake, and a market to put into them."""

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.engine.service import Engine
from artery.indicators.bar import bar_of
from artery.indicators.places import values_key
from artery.indicators.standard import NAMES, fold
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.places import BATCH, POSITIONS, QUERY
from artery.lake.reads import Lake
from artery.lake.tables import OHLC, TRADES
from artery.model import codec
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.store.base import Store
from artery.store.open import open_store

MINUTE = Period.parse("1m")
T0 = 1_730_073_600_000
"""A midnight."""


def candle(minute: int, *, close: str = "", closed: bool = True, rev: int = 0, coin: str = "BTC") -> Candle:
    """A minute of a market that wanders; the same minute is always the same."""
    chance = random.Random(f"{coin}{minute}")
    price = Decimal(close) if close else Decimal(100) + Decimal(chance.randrange(-500, 500)) / 100
    start = T0 + minute * MINUTE.ms
    return Candle(
        provider="sim", coin=coin, period=MINUTE, start_ts=start, o=price, h=price + 1, l=price - 1, c=price,
        v=Decimal(chance.randrange(1, 1_000)) / 10, n=3, closed=closed, rev=rev, event_ts=start + MINUTE.ms,
        epoch=1, seq=minute + 1,
    )  # fmt: skip


def trade(seq: int, ts: int, px: str, sz: str = "1", *, epoch: int = 1) -> Trade:
    return Trade(
        provider="sim", coin="BTC", event_ts=ts, epoch=epoch, seq=seq if epoch else 0, ts=ts, tid=str(seq),
        px=Decimal(px), sz=Decimal(sz), side="B",
    )  # fmt: skip


def wanted(candles: Iterable[Candle]) -> dict[str, float | None]:
    """The values of the newest of these candles, by one fold over all of them."""
    *_, (_, values) = fold([bar_of(one) for one in candles])
    return dict(zip(NAMES, values, strict=True))


@dataclass
class House:
    """What an engine stands on, and what it has written."""

    folder: Path
    bus: Bus
    store: Store
    lake: Lake

    def engine(self, **options: Any) -> Engine:
        usual: dict[str, Any] = {"save_s": 0.0, "clock": lambda: T0 / 1_000}
        return Engine(self.bus, options.pop("store", self.store), self.lake, **(usual | options))

    async def append(self, *events: Candle | Trade) -> list[str]:
        ids = []
        for event in events:
            stream = "trade" if isinstance(event, Trade) else "candle"
            ids += await self.bus.append(stream, [codec.encode(event)])
        return ids

    async def record(self, coin: str = "BTC", period: Period = MINUTE, provider: str = "sim") -> dict[str, Any]:
        raw = await self.store.get(values_key(provider, coin, period))
        assert raw is not None
        found: dict[str, Any] = msgspec.json.decode(raw)
        return found

    async def values(self, which: str = "closed") -> dict[str, float | None]:
        """The values of the record by name, without VWAP."""
        found = (await self.record())[which]
        return {name: found[name] for name in NAMES}

    def commit(self, *candles: Candle, **positions: str) -> None:
        """Put candles into the lake, as the pipeline does."""
        catalog = open_catalog(self.folder)
        ensure_tables(catalog)
        summary = {QUERY: "store", BATCH: "1", POSITIONS: msgspec.json.encode(positions).decode()}
        rows = [_row(one) for one in candles]
        table = catalog.load_table(OHLC.full_name)
        table.append(pa.Table.from_pylist(rows, schema=OHLC.schema), snapshot_properties=summary)
        catalog.engine.dispose()

    def commit_trades(self, *trades: Trade, **positions: str) -> None:
        """Put trades into the lake, as the pipeline does."""
        catalog = open_catalog(self.folder)
        ensure_tables(catalog)
        summary = {QUERY: "store", BATCH: "1", POSITIONS: msgspec.json.encode(positions).decode()}
        rows = pa.Table.from_pylist([_trade_row(one) for one in trades], schema=TRADES.schema)
        catalog.load_table(TRADES.full_name).append(rows, snapshot_properties=summary)
        catalog.engine.dispose()

    def rewrite(self, *candles: Candle) -> None:
        """Replace everything that the lake has."""
        catalog = open_catalog(self.folder)
        rows = [_row(one) for one in candles]
        catalog.load_table(OHLC.full_name).overwrite(pa.Table.from_pylist(rows, schema=OHLC.schema))
        catalog.engine.dispose()


@asynccontextmanager
async def house(folder: Path, url: str = "") -> AsyncIterator[House]:
    """Bus and store at this address, or in files of this folder; the lake is in the folder."""
    bus, store = open_bus(url or f"sqlite:///{folder}/bus.db"), open_store(url or f"sqlite:///{folder}/store.db")
    made = House(folder, bus, store, Lake(folder))
    try:
        yield made
    finally:
        made.lake.close()
        await made.store.close()
        await made.bus.close()


def _row(made: Candle) -> dict[str, Any]:
    return {
        "ticker": f"SIM:{made.coin}", "period_s": made.period.seconds, "start": _when(made.start_ts), "open": made.o,
        "high": made.h, "low": made.l, "close": made.c, "volume": made.v, "trades": made.n, "closed": made.closed,
        "rev": made.rev, "source": "live", "updated": _when(made.event_ts),
    }  # fmt: skip


def _trade_row(made: Trade) -> dict[str, Any]:
    return {
        "ticker": f"SIM:{made.coin}", "ts": _when(made.ts), "tid": made.tid, "price": made.px, "size": made.sz,
        "side": made.side, "provider": made.provider, "epoch": made.epoch, "seq": made.seq,
        "received": _when(made.event_ts),
    }  # fmt: skip


def _when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)
