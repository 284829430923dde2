"""How the lake is kept, as its writer last saw it: in numbers for `/metrics`, in words for `/readyz`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from artery.lake.asks import STATE
from artery.lake.state import SMALL_MAX, SNAPSHOTS_MAX, STALE_MS, Health
from artery.lake.tables import TRADES
from artery.store.base import Store
from artery.telemetry import gauge

FILES = gauge("lake_files", "Data files of a table.", "table")
SMALL = gauge("lake_small_files", "Data files of a table that could be joined with others.", "table")
SHARE = gauge("lake_small_share", "The small files' share of all files of a table, 0 to 1.", "table")
BYTES = gauge("lake_bytes", "Size of a table's data files.", "table")
SNAPSHOTS = gauge("lake_snapshots", "Snapshots of a table that can be read.", "table")
COMMITTED = gauge("lake_committed_seconds", "When rows were last committed to a table, since 1970.", "table")
LIMIT = gauge(
    "lake_limit",
    "Above this a table is not well kept.",
    "what",
)


class LakeState(msgspec.Struct, frozen=True):
    """What the writer left in the store."""

    updated_ms: int
    tables: list[Health]


async def read_state(store: Store) -> LakeState | None:
    """How the tables are; None if nobody has written lately."""
    value = await store.get(STATE)
    try:
        return msgspec.json.decode(value, type=LakeState) if value else None
    except msgspec.MsgspecError:
        return None


def measure(state: LakeState | None) -> None:
    """Set the numbers; a lake that nobody keeps has none."""
    for one in (FILES, SMALL, SHARE, BYTES, SNAPSHOTS, COMMITTED):
        one.clear()
    LIMIT.labels("small_files").set(SMALL_MAX)
    LIMIT.labels("snapshots").set(SNAPSHOTS_MAX)
    LIMIT.labels("age_seconds").set(STALE_MS / 1_000)
    for table in state.tables if state else ():
        FILES.labels(table.table).set(table.files)
        SMALL.labels(table.table).set(table.small)
        SHARE.labels(table.table).set(table.small_share)
        BYTES.labels(table.table).set(table.bytes)
        SNAPSHOTS.labels(table.table).set(table.snapshots)
        COMMITTED.labels(table.table).set(table.committed_ms / 1_000)


def in_words(state: LakeState | None, now_ms: int) -> Mapping[str, Any]:
    """The part of `/readyz`; live data does not depend on it."""
    if state is None:
        return {"ok": True, "words": "not looked at yet: the pipeline does so a minute after its start", "tables": []}
    faults = [f"{table.table}: {table.words}" for table in state.tables if not table.ok]
    if now_ms - state.updated_ms > STALE_MS:
        faults.append(f"nobody has looked at it for {_minutes(now_ms - state.updated_ms)}: see how the pipeline is")
    for table in state.tables:
        if table.table == TRADES.name and 0 < table.committed_ms < state.updated_ms - STALE_MS:
            faults.append(f"no trade was stored for {_minutes(state.updated_ms - table.committed_ms)}")
    words = "; ".join(faults) or f"{sum(table.files for table in state.tables):,} files, well kept"
    return {"ok": not faults, "words": words, "updated_ms": state.updated_ms, "tables": state.tables}


def _minutes(ms: int) -> str:
    return f"{ms // 60_000} min"
