"""Markets' metadata in the lake: every version once, told of after the commit, whatever dies in between."""

from decimal import Decimal

import pytest

from artery.lake.catalog import open_catalog
from artery.lake.tables import SYMBOLS
from artery.model import symbols
from artery.model.symbols import Symbol
from artery.pipeline.storage import StoreQuery
from artery.pipeline.symbols import KEY, Tidings
from artery.store.base import Store
from artery.wire import metadata
from artery.wire.artery_pb2 import SymbolMetadataUpdated
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE
from tests.pipeline.test_storage import ZERO, Stored, rows_of


class Death(Exception):
    """The driver died here."""


class Listed(Stored):
    """The store query with its tidings."""

    def __init__(self, spark: House, log: Log, store: Store) -> None:
        super().__init__(spark, log)
        self.tidings = Tidings(log.bus, store, log.calls)
        self.query = StoreQuery(ZERO, log.bus, log.calls, tidings=self.tidings)


def version(provider: str, number: int, tick: str = "0.1", at: int = BASE) -> dict[str, str]:
    return symbols.encode(
        Symbol(provider, "BTC", "BTC", "USDC", Decimal(tick), Decimal("0.001"), version=number, valid_from=at)
    )


def told(log: Log) -> list[SymbolMetadataUpdated]:
    return [metadata.decode(fields) for fields in log.fields("notify")]


def test_every_version_is_a_row_and_is_told_of_with_the_snapshot_that_has_it(
    spark: House, log: Log, store: Store
) -> None:
    query = Listed(spark, log, store)
    log.append("symbol", version("first", 1), version("first", 2, "0.5", BASE + 90_000_000))
    query.run()
    log.append("symbol", version("first", 3, "0.25", BASE + 90_000_001))
    query.run()
    rows = sorted(rows_of(spark, "symbols", "FIRST:BTC"), key=lambda row: row["version"])
    assert [(row["version"], row["tick_size"]) for row in rows] == [
        (1, Decimal("0.1")),
        (2, Decimal("0.5")),
        (3, Decimal("0.25")),
    ]
    last = told(log)[-1]
    assert (last.provider, last.count, last.version) == ("first", 1, 3)
    table = open_catalog(spark.settings.folder).load_table(SYMBOLS.full_name)
    there = table.scan(snapshot_id=last.snapshot_id, row_filter="ticker = 'FIRST:BTC'").to_arrow()
    assert sorted(there["version"].to_pylist()) == [1, 2, 3]
    assert log.do(lambda: store.get(KEY)) is None


def test_a_driver_that_dies_after_the_commit_is_followed_by_one_that_tells_of_it_and_repeats_no_row(
    spark: House, log: Log, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_self: Tidings, _session: object) -> None:
        raise Death

    log.append("symbol", version("second", 1), version("second", 2, "0.5"))
    with monkeypatch.context() as patched:
        patched.setattr(Tidings, "say", die)
        with pytest.raises(Death):
            Listed(spark, log, store).run()
    assert told(log) == []
    query = Listed(spark, log, store)  # begins again at the beginning of the log
    query.tidings.say(spark.session)
    assert [(one.provider, one.count, one.version) for one in told(log)] == [("second", 2, 2)]
    query.run()
    assert sorted(row["version"] for row in rows_of(spark, "symbols", "SECOND:BTC")) == [1, 2]
    assert {one.version for one in told(log)} == {2}


def test_what_is_no_symbol_is_buried_and_the_rest_is_kept(spark: House, log: Log, store: Store) -> None:
    bad = version("third", 1) | {"tick_size": "-1"}
    log.append("symbol", bad, version("third", 2), {"ver": "1", "t": "TRADE"})
    Listed(spark, log, store).run()
    assert [row["version"] for row in rows_of(spark, "symbols", "THIRD:BTC")] == [2]
    assert [fields["stream"] for fields in log.fields("dead")] == ["symbol", "symbol"]
