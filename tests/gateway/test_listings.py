"""Markets' metadata in the gateway: from the lake when the log tells of it, from the store before that."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from artery.gateway import listings
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.tables import SYMBOLS
from artery.model import symbols
from artery.model.symbols import Symbol
from artery.wire import metadata
from artery.wire.artery_pb2 import SymbolMetadataUpdated
from tests.gateway.made import T0
from tests.gateway.running import Running, started, until


def version(coin: str, number: int, tick: str) -> Symbol:
    return Symbol("sim", coin, coin, "USDC", Decimal(tick), Decimal("0.1"), version=number, valid_from=T0 + number)


def commit(folder: Path, *found: Symbol) -> None:
    """As the pipeline does."""
    catalog = open_catalog(folder)
    ensure_tables(catalog)
    rows: list[dict[str, Any]] = [
        {
            "ticker": one.ticker, "version": one.version, "provider": one.provider, "market": one.coin,
            "base": one.base, "quote": one.quote, "tick_size": one.tick_size, "size_step": one.size_step,
            "status": one.status, "valid_from": datetime.fromtimestamp(one.valid_from / 1_000, UTC),
        }
        for one in found
    ]  # fmt: skip
    catalog.load_table(SYMBOLS.full_name).append(pa.Table.from_pylist(rows, schema=SYMBOLS.schema))
    catalog.engine.dispose()


async def tell(running: Running) -> None:
    said = SymbolMetadataUpdated(snapshot_id=1, provider="sim", count=1, version=1)
    await running.bus.append("notify", [metadata.encode(said, event_ts=T0)])


async def row(running: Running, coin: str) -> dict[str, Any]:
    async with running.http() as http:
        found = (await http.get("/v1/markets")).json()["markets"]
    return next((market for market in found if market["coin"] == coin), {})


async def comes(running: Running, coin: str, number: int) -> dict[str, Any]:
    """The market's row, once it is of this version."""

    async def there() -> dict[str, Any]:
        found = await row(running, coin)
        return found if found.get("version") == number else {}

    found: dict[str, Any] = await until(there)
    return found


async def test_a_gateway_that_starts_before_any_symbol_exists_ends_with_all_of_them(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        assert await row(running, "SOL") == {}
        commit(running.settings.folder, version("SOL", 1, "0.5"), version("SOL", 2, "0.25"), version("BTC", 1, "1"))
        await tell(running)
        assert (await comes(running, "SOL", 2))["tick_size"] == "0.25"
        assert (await comes(running, "BTC", 1))["valid_from"] == T0 + 1
        async with running.http() as http:
            symbol = (await http.get("/udf/symbols", params={"symbol": "SIM:SOL"})).json()
        assert (symbol["minmov"], symbol["pricescale"]) == (25, 100)


async def test_what_is_not_committed_yet_comes_from_the_store_and_an_older_commit_does_not_undo_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "RELOAD_S", 0.05)
    async with started(tmp_path) as running:
        await running.store.put(symbols.key("sim", "SOL"), symbols.write(version("SOL", 3, "0.125")))
        await comes(running, "SOL", 3)
        commit(running.settings.folder, version("SOL", 1, "0.5"), version("DOGE", 1, "1"))
        await comes(running, "DOGE", 1)  # nothing told of it: the table is read now and then anyway
        assert (await row(running, "SOL"))["tick_size"] == "0.125"
