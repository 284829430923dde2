"""Telling of markets whose metadata has changed, once the table `symbols` was committed.

What is to be said is put down in the store before the commit, so that a driver that dies after it is followed by one
that says it.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from artery.bus.base import Bus
from artery.lake.places import NAME as CATALOG
from artery.lake.tables import SYMBOLS
from artery.pipeline.calls import Calls
from artery.pipeline.outcomes import snapshot
from artery.store.base import Store
from artery.wire import metadata
from artery.wire.artery_pb2 import SymbolMetadataUpdated

KEY = "artery:pipeline:symbols"


class Tidings:
    """Says after each commit of `symbols` which providers' markets have changed. Saying it again does no harm."""

    def __init__(self, bus: Bus, store: Store, calls: Calls) -> None:
        self._bus = bus
        self._store = store
        self._calls = calls

    def put_down(self, rows: DataFrame) -> None:
        """Before the commit: how many versions of each provider come with it."""
        found = {row["provider"]: row["count"] for row in rows.groupBy("provider").count().collect()}
        value = msgspec.json.encode(found)
        self._calls(lambda: self._store.put(KEY, value), "putting down which markets changed")

    def say(self, session: Any) -> None:
        """After the commit, and after a start: what was put down, with the snapshot to read."""
        counts = self._calls(self._left, "reading which markets changed")
        if counts:
            messages = updates(counts, versions(session), snapshot(session, SYMBOLS))
            self._calls(lambda: self._announce(messages), "telling of changed markets")

    async def _left(self) -> dict[str, int]:
        return msgspec.json.decode(await self._store.get(KEY) or b"{}", type=dict[str, int])

    async def _announce(self, messages: list[SymbolMetadataUpdated]) -> None:
        now_ms = time.time_ns() // 1_000_000
        await self._bus.append("notify", [metadata.encode(message, event_ts=now_ms) for message in messages])
        await self._store.delete(KEY)


def updates(counts: Mapping[str, int], held: Mapping[str, int], snapshot_id: int) -> list[SymbolMetadataUpdated]:
    """One message for each provider: `version` is how many versions the table holds of it, `count` how many are new."""
    return [
        SymbolMetadataUpdated(snapshot_id=snapshot_id, provider=provider, count=count, version=held.get(provider, 0))
        for provider, count in sorted(counts.items())
    ]


def versions(session: Any) -> dict[str, int]:
    """How many versions of markets' metadata the table holds of each provider."""
    table = session.table(f"{CATALOG}.{SYMBOLS.full_name}")
    return {row["provider"]: row["held"] for row in table.groupBy("provider").agg(F.count("*").alias("held")).collect()}
