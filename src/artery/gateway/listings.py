"""Markets' metadata from the lake: loaded once, again whenever the log tells of a change, and now and then anyway."""

import asyncio
import random
from typing import Any, Protocol

import pyarrow as pa

from artery.bus.base import Bus
from artery.errors import ArteryError, PositionLost
from artery.gateway.catalog import Catalog
from artery.model.symbols import Symbol
from artery.telemetry import logger
from artery.wire import metadata

RELOAD_S = 300.0
AGAIN_S = 2.0

_log = logger("gateway")


class SymbolReads(Protocol):
    """What is read of the lake; synchronous and thread-safe."""

    def symbols(self) -> pa.Table:
        """The newest version of every market's metadata."""
        ...


class Listings:
    """Keeps the catalog to the table `symbols`. The log is followed from before the first load, so nothing that is
    committed between the two is missed; what is not committed yet the catalog has from the store."""

    def __init__(self, bus: Bus, lake: SymbolReads, catalog: Catalog) -> None:
        self._bus = bus
        self._lake = lake
        self._catalog = catalog
        self._due = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        head = await self._bus.head("notify")
        self._due.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear(head))
            group.create_task(self._load())

    async def _hear(self, after: str) -> None:
        while True:
            try:
                async for entries in self._bus.follow("notify", after):
                    after = entries[-1].id
                    if any(entry.fields.get("kind") == metadata.KIND for entry in entries):
                        self._due.set()
            except PositionLost as lost:
                after = lost.first
                self._due.set()
            except ArteryError as error:
                if not error.temporary:
                    raise
                _log.warning("changes of markets cannot be heard for the moment", reason=str(error))
                await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.0))

    async def _load(self) -> None:
        wait_s = RELOAD_S
        while True:
            try:
                async with asyncio.timeout(wait_s * random.uniform(0.9, 1.0)):
                    await self._due.wait()
            except TimeoutError:
                pass  # a message may have been lost: once in a while the table is read without one
            self._due.clear()
            try:
                self._catalog.learn(rows_of(await asyncio.to_thread(self._lake.symbols)))
                wait_s = RELOAD_S
            except ArteryError as error:
                wait_s = AGAIN_S
                _log.warning("the markets' metadata could not be read", reason=str(error))


def rows_of(table: pa.Table) -> list[Symbol]:
    return [_symbol(row) for row in table.to_pylist()]


def _symbol(row: dict[str, Any]) -> Symbol:
    return Symbol(
        provider=row["provider"],
        coin=row["market"],
        base=row["base"],
        quote=row["quote"],
        tick_size=row["tick_size"],
        size_step=row["size_step"],
        status=row["status"],
        version=row["version"],
        valid_from=int(row["valid_from"].timestamp() * 1_000),
    )
