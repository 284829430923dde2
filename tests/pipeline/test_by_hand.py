"""A step of the lake's upkeep where no pipeline runs: the command takes the lock, starts Spark and does it itself."""

from pathlib import Path

import msgspec
import pytest

from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.reads import Lake
from artery.lake.tables import TRADES
from tests.cli import command
from tests.cli.command import artery
from tests.lake.test_reads import NOON, append, trade


def test_without_a_pipeline_the_command_does_the_step_itself_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "WAIT_S", 240.0)
    folder = tmp_path / "sim"
    ensure_tables(open_catalog(folder))
    for number in (1, 2, 3):
        append(folder, TRADES, [trade(number, NOON + number)], trade=str(number))
    done = artery("lake", "compact", "trades", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    assert msgspec.json.decode(done.out) == {"step": "compact", "table": "trades", "count": 3, "by": "this command"}
    lake = Lake(folder)
    handle = lake.handle(TRADES)
    assert handle is not None
    assert len(list(handle.scan().plan_files())) == 1
    assert lake.trades("SIM:BTC", 0, NOON * 2)["tid"].to_pylist() == ["1", "2", "3"]
    assert lake.positions()["trade"] == "3"
    lake.close()
    assert command.left_behind(tmp_path) == []
