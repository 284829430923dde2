"""Trades of long ago for the gateway's benchmark: in the lake, with only the newest of them still on the log."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa

from artery.bus.base import Bus
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.places import BATCH, POSITIONS, QUERY
from artery.lake.tables import EXACT, TIME, TRADES
from artery.model import codec
from artery.model.events import Trade
from artery.model.tickers import ticker

EPOCH = 1_720_000_000_000
APART_MS = 200
ON_BUS, KEPT, NOT_IN_LAKE = 2_000, 1_000, 500


async def fill(folder: Path, bus: Bus, coins: list[str], count: int) -> None:
    """`count` trades of each market; the lake has them but for the last few, which the log still has."""
    position = "0"
    for coin in coins:
        made = [codec.encode(_trade(coin, seq)) for seq in range(count - ON_BUS + 1, count + 1)]
        position = (await bus.append("trade", made))[-NOT_IN_LAKE - 1]
        await bus.trim("trade", keep=KEPT)
    catalog = open_catalog(folder)
    ensure_tables(catalog)
    handle = catalog.load_table(TRADES.full_name)
    summary = {QUERY: "store", BATCH: "1", POSITIONS: msgspec.json.encode({"trade": position}).decode()}
    for coin in coins:
        handle.append(_rows(coin, count if coin != coins[-1] else count - NOT_IN_LAKE), snapshot_properties=summary)
    catalog.engine.dispose()


def _trade(coin: str, seq: int) -> Trade:
    ts = EPOCH + seq * APART_MS
    return Trade(provider="sim", coin=coin, event_ts=ts + 5, epoch=EPOCH, seq=seq, ts=ts, tid=str(10**12 + seq),
                 px=Decimal(seq % 10_000) / 100 + 100, sz=Decimal("0.5"), side="B")  # fmt: skip


def _rows(coin: str, count: int) -> pa.Table:
    """The same trades as the lake keeps them."""
    seqs = list(range(1, count + 1))
    times = pa.array([(EPOCH + seq * APART_MS) * 1_000 for seq in seqs], pa.int64())
    cents = pa.array([10_000 + seq % 10_000 for seq in seqs], pa.int64()).cast(pa.decimal128(20, 0))
    columns = {
        "ticker": pa.array([ticker("sim", coin)] * count),
        "ts": times.cast(TIME),
        "tid": pa.array([str(10**12 + seq) for seq in seqs]),
        "price": pa.compute.divide(cents, pa.scalar(Decimal(100))).cast(EXACT, safe=False),
        "size": pa.array([Decimal("0.5")] * count, EXACT),
        "side": pa.array(["B"] * count),
        "provider": pa.array(["sim"] * count),
        "epoch": pa.array([EPOCH] * count, pa.int64()),
        "seq": pa.array(seqs, pa.int64()),
        "received": pa.compute.add(times, 5_000).cast(TIME),
    }
    return pa.table(columns, schema=TRADES.schema)
