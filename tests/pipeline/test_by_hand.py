"""A step of the lake's upkeep by hand: where no pipeline runs, the command takes the lock, starts Spark and does it
itself; where one does, the person hears how far it is."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from artery.app.lake_steps import do_step
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.reads import Lake
from artery.lake.tables import TRADES
from artery.live.base import Term
from artery.live.lock import StoreLock
from artery.pipeline.keeper import Keeper
from artery.pipeline.service import LOCK
from artery.store.base import Store
from artery.store.open import open_store
from tests.cli import command
from tests.cli.command import artery
from tests.lake.test_reads import NOON, append, trade
from tests.pipeline.conftest import House, Log


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


def test_how_far_the_pipeline_is_with_a_step_is_told_on_the_way(spark: House, log: Log) -> None:
    async def opened() -> tuple[Store, Term]:
        store = open_store(spark.settings.store_url())
        term = await StoreLock(store).acquire(LOCK, 300.0)  # as a pipeline holds it
        assert term is not None
        return store, term

    store, term = log.do(opened)
    keeper = Keeper(spark.settings, spark.session, store, threading.Lock(), log.calls)
    told: list[tuple[int, str]] = []

    def step() -> None:
        asyncio.run(do_step(spark.settings, "expire", "trades", lambda done, words: told.append((done, words))))

    person = threading.Thread(target=step)
    person.start()
    try:
        while person.is_alive():
            log.do(keeper._listen)
            person.join(0.1)
    finally:
        person.join()
        log.do(lambda: StoreLock(store).release(term))
        log.do(store.close)
    words = list(dict.fromkeys(said for _, said in told))
    assert words[0] in ("waiting for the pipeline", "waiting for the batch that is being stored")
    assert "looking for files that no table names" in words, "which takes seconds"
    assert (words[-1], told[-1][0]) == ("done", 1_000)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
