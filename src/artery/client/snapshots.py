"""Candles read from the lake itself, as it was when an outcome was announced."""

from pathlib import Path

import pyarrow as pa

from artery.wire.artery_pb2 import HistoryReadyNotification

NAMES = {
    "start": "start",
    "open": "o",
    "high": "h",
    "low": "l",
    "close": "c",
    "volume": "v",
    "trades": "n",
    "closed": "closed",
    "rev": "rev",
}
"""The lake's columns, as `/v1/history` names them."""


def candles_of(folder: str | Path, outcome: HistoryReadyNotification) -> pa.Table:
    """The candles that an outcome speaks of, oldest first, from the lake in this data folder."""
    from artery.lake.reads import Lake  # late, because of its driver

    lake = Lake(Path(folder))
    try:
        found = lake.candles_at(
            outcome.snapshot_id, outcome.ticker, outcome.period_s, outcome.start_ms, outcome.end_ms, tuple(NAMES)
        )
    finally:
        lake.close()
    starts = found.column("start").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    return found.set_column(0, "start", starts).rename_columns(list(NAMES.values()))
