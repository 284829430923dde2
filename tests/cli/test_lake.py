"""`artery lake`: what the tables are, in words and for programs; without a lake one sentence."""

from pathlib import Path

import msgspec
import pytest

from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.tables import OHLC, TABLES
from tests.cli.command import artery
from tests.lake.test_reads import MINUTE, NOON, append, candle


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a small lake: two commits of candles."""
    folder = tmp_path_factory.mktemp("lake")
    ensure_tables(open_catalog(folder / "sim"))
    for number in range(2):
        append(folder / "sim", OHLC, [candle("SIM:BTC", NOON + number * MINUTE)])
    return folder


@pytest.mark.parametrize("words", [("lake",), ("lake", "compact")])
def test_without_a_lake_one_sentence_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = artery(*words, folder=tmp_path)
    assert done.code == 1
    assert "there is no lake in" in done.sentence


def test_tables_files_and_snapshots_are_listed_for_programs_and_for_people(lake: Path) -> None:
    rows = {row["table"]: row for row in msgspec.json.decode(artery("lake", "--json", folder=lake).out)}
    assert set(rows) == set(TABLES)
    ohlc = rows["ohlc"]
    assert (ohlc["rows"], ohlc["files"], ohlc["small"], ohlc["snapshots"], ohlc["ok"]) == (2, 2, 2, 2, True)
    files = msgspec.json.decode(artery("lake", "files", "ohlc", "--json", folder=lake).out)
    assert [(row["low_ms"], row["period_s"], row["rows"]) for row in files] == [(NOON + MINUTE, 60, 1), (NOON, 60, 1)]
    snapshots = msgspec.json.decode(artery("lake", "snapshots", "ohlc", "--json", folder=lake).out)
    assert [(row["operation"], row["query"]) for row in snapshots] == [("append", "store")] * 2
    people = artery("lake", folder=lake)
    assert "well kept" in people.out
    assert "2 (100%)" in people.out


def test_an_unknown_table_or_snapshot_is_named_with_what_there_is(lake: Path) -> None:
    for words in (("files", "candles"), ("compact", "candles"), ("pin", "candles")):
        assert "is not a table; there are ohlc, trades" in artery("lake", *words, folder=lake).sentence
    unknown = artery("lake", "pin", "ohlc", "--snapshot", "7", folder=lake)
    assert "ohlc has no snapshot 7; `artery lake snapshots ohlc`" in unknown.sentence


def test_a_pin_names_the_snapshot_and_until_when(lake: Path) -> None:
    newest = msgspec.json.decode(artery("lake", "snapshots", "ohlc", "--json", folder=lake).out)[0]["id"]
    done = msgspec.json.decode(artery("lake", "pin", "ohlc", "--hours", "1", "--json", folder=lake).out)
    assert (done["table"], done["snapshot"]) == ("ohlc", newest)


def test_a_master_is_for_the_pipeline_alone(tmp_path: Path) -> None:
    done = artery("run", "gateway", "--master", "spark://127.0.0.1:7077", folder=tmp_path)
    assert "--master is for the pipeline" in done.sentence
