"""The catalog in a real PostgreSQL: the same lake, and a server that goes away is said, not suffered."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from artery.app.doctor_lake import cluster_rows
from artery.errors import CannotStart, Unavailable
from artery.lake.catalog import open_catalog
from artery.lake.prepare import prepare
from artery.lake.reads import Lake
from artery.lake.tables import TRADES
from artery.pipeline.session import jvm_options, secret_configuration
from artery.settings import Settings
from tests.lake.test_reads import NOON, trade
from tests.postgres import PostgresServer
from tests.servers import free_port


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer(None).start()
    yield made
    made.end()


def test_a_lake_with_its_catalog_on_a_server_is_made_read_and_found_again(
    server: PostgresServer, tmp_path: Path
) -> None:
    lake = Lake(tmp_path, None, server.url)
    assert lake.trades("SIM:BTC", 0, NOON * 2).num_rows == 0, "a lake that is not there yet reads as empty"
    prepare(tmp_path, None, server.url)
    catalog = open_catalog(tmp_path, server.url)
    rows = pa.Table.from_pylist([trade(1, NOON)], schema=TRADES.schema)
    catalog.load_table(TRADES.full_name).append(rows)
    catalog.engine.dispose()
    assert lake.trades("SIM:BTC", 0, NOON * 2).num_rows == 1
    server.kill()
    with pytest.raises(Unavailable, match="the lake could not be read"):
        lake.snapshot("trades")
    with pytest.raises(CannotStart, match="check its server"):
        prepare(tmp_path, None, server.url)
    server.start()
    assert lake.trades("SIM:BTC", 0, NOON * 2).num_rows == 1
    assert not (tmp_path / "lake" / "catalog.db").exists()
    lake.close()


def test_the_doctor_knows_the_catalog_and_the_master(server: PostgresServer) -> None:
    there = Settings().with_(lake={"catalog_url": server.url}, pipeline={"master": f"spark://127.0.0.1:{server.port}"})
    assert [row[:3] for row in cluster_rows(there)] == [
        ("the lake's catalog", "ok", "answers"),
        ("Spark's master", "ok", f"127.0.0.1:{server.port} answers"),
    ]
    closed = free_port()
    away = Settings().with_(
        lake={"catalog_url": f"postgresql://a:secret@127.0.0.1:{closed}/x"},
        pipeline={"master": f"spark://127.0.0.1:{closed}"},
    )
    catalog, master = cluster_rows(away)
    assert (catalog[1], master[1]) == ("missing", "missing")
    assert "secret" not in "".join(catalog + master)
    assert "ART_PIPELINE_MASTER" in master[3]
    assert list(cluster_rows(Settings())) == []


def test_a_password_stands_in_no_argument_of_a_process(server: PostgresServer) -> None:
    settings = Settings().with_(lake={"catalog_url": server.url})
    assert any("pass word/1" in value for value in secret_configuration(settings).values())
    assert not any("pass" in option for option in jvm_options(settings))
