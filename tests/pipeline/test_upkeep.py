"""The lake keeps itself: fewer files and snapshots, the same rows, and nobody who reads is disturbed."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from artery.app.lake_steps import pin
from artery.errors import NotFound
from artery.lake.asks import ANSWER, ASK, EXPIRING, PIN, STATE, Answer, Ask, pin_key
from artery.lake.looking import looked_at
from artery.lake.orphans import AGE_MS, _old, remove_orphans
from artery.lake.places import NAME
from artery.lake.reads import Lake
from artery.lake.tables import OHLC, TABLES, TRADES
from artery.live.base import Term
from artery.live.lock import StoreLock
from artery.pipeline import upkeep
from artery.pipeline.compaction import Keep, jobs
from artery.pipeline.keeper import Keeper
from artery.pipeline.service import LOCK
from artery.store.base import Store
from artery.store.open import open_store
from tests.cli.command import Done, artery
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import BASE, trade
from tests.pipeline.test_storage import MINUTE, Stored, encoded, own, rows_of

NOW_MS = int(time.time() * 1_000)
LATER_MS = NOW_MS + 10**9
COMMITS = 8
WRITTEN = (TRADES, OHLC)
FEW = 3
BARE = Keep(ms=0, newest=FEW)
"""Keep hardly anything, so that few commits show what goes."""


def commits(spark: House, log: Log, coin: str, count: int) -> Stored:
    """So many commits to trades and candles, as a quiet market makes them."""
    store = Stored(spark, log)
    for number in range(1, count + 1):
        log.append("trade", *encoded(trade(number, BASE + number * 1_000, coin=coin)))
        log.append("candle", *encoded(own(coin, str(10 + number), at=number)))
        store.run()
    return store


def compacted(spark: House) -> None:
    for table in WRITTEN:
        for job in jobs(table, upkeep.look(spark.session, table).files, LATER_MS, join_open=2):
            upkeep.compact(spark.session, job)


def test_upkeep_changes_no_row_and_keeps_the_positions(spark: House, log: Log) -> None:
    commits(spark, log, "KEEP", FEW + 2)
    before, positions = rows_of(spark, "trades", "SIM:KEEP"), spark.lake.positions()
    there = looked_at(spark.lake, "trades")
    upkeep.expire(spark.session, TRADES, Keep(newest=FEW), NOW_MS)
    recent = {one.id for one in there.snapshots if one.at_ms > NOW_MS - Keep().ms}
    kept = {one.id for one in looked_at(spark.lake, "trades").snapshots}
    assert recent <= kept, "what was just replaced stays for whoever reads it"
    compacted(spark)
    upkeep.expire(spark.session, TRADES, BARE, LATER_MS)
    after = looked_at(spark.lake, "trades")
    assert sorted(rows_of(spark, "trades", "SIM:KEEP"), key=str) == sorted(before, key=str)
    assert spark.lake.positions() == positions
    assert len(after.files) < len(there.files) - FEW
    assert jobs(TRADES, after.files, LATER_MS) == [], "a second look finds nothing to do"
    assert len(after.snapshots) <= FEW + 1


def test_spark_and_the_reads_without_it_see_the_same_files_and_snapshots(spark: House, log: Log) -> None:
    commits(spark, log, "LOOKS", 1)
    for table in TABLES.values():
        ours, theirs = looked_at(spark.lake, table.name), upkeep.look(spark.session, table)
        assert sorted(map(msgspec.json.encode, ours.files)) == sorted(map(msgspec.json.encode, theirs.files))
        assert [one.id for one in ours.snapshots] == [one.id for one in theirs.snapshots]
        assert [one.query for one in ours.snapshots] == [one.query for one in theirs.snapshots]
        assert ours.current == theirs.current


def test_what_a_notification_or_a_reader_pinned_can_be_read_and_the_rest_goes(spark: House, log: Log) -> None:
    store = commits(spark, log, "PIN", 1)
    pinned = upkeep.look(spark.session, OHLC).current
    at_that_time = spark.session.sql(f"SELECT * FROM {NAME}.market.ohlc VERSION AS OF {pinned}").count()
    for number in range(FEW + 1):
        log.append("candle", *encoded(own("PIN", "20", at=100 + number)))
        store.run()
    unpinned = [one.id for one in upkeep.look(spark.session, OHLC).snapshots if one.id != pinned][:-FEW]
    assert upkeep.expire(spark.session, OHLC, Keep({pinned}, 0, FEW), LATER_MS) == len(unpinned)
    left = {one.id for one in upkeep.look(spark.session, OHLC).snapshots}
    assert pinned in left
    assert not left & set(unpinned)
    handle = spark.lake.handle(OHLC)
    assert handle is not None
    assert handle.scan(snapshot_id=pinned).to_arrow().num_rows == at_that_time
    upkeep.expire(spark.session, OHLC, BARE, LATER_MS)
    assert pinned not in {one.id for one in upkeep.look(spark.session, OHLC).snapshots}


def test_spark_pyiceberg_and_duckdb_read_the_same_rows_at_the_same_snapshot(spark: House, log: Log) -> None:
    """No file deletes rows of another, so a snapshot is exactly its data files, and DuckDB needs no more."""
    store = commits(spark, log, "READERS", 1)
    snapshots = [upkeep.look(spark.session, OHLC).current]
    log.append(
        "candle", *encoded(own("READERS", "99", closed=True, at=50), own("READERS", "7", at=51, start=BASE + MINUTE))
    )
    store.run()
    snapshots.append(upkeep.look(spark.session, OHLC).current)
    compacted(spark)
    snapshots.append(upkeep.look(spark.session, OHLC).current)
    handle = spark.lake.handle(OHLC)
    assert handle is not None
    seen: list[list[Any]] = []
    for snapshot in snapshots:
        scan = handle.scan(snapshot_id=snapshot)
        tasks = list(scan.plan_files())
        assert not any(task.delete_files for task in tasks)
        by_spark = spark.session.sql(f"SELECT * FROM {NAME}.market.ohlc VERSION AS OF {snapshot}").toArrow()
        files = [task.file.file_path.removeprefix("file://") for task in tasks]
        with duckdb.connect() as duck:
            duck.execute("SET timezone = 'UTC'")
            by_duck = duck.read_parquet(files).to_arrow_table()
        by_pyiceberg = scan.to_arrow()
        tables = [found.select(OHLC.schema.names).cast(OHLC.schema) for found in (by_spark, by_pyiceberg, by_duck)]
        rows = [sorted(map(str, found.to_pylist())) for found in tables]
        assert rows[0] == rows[1] == rows[2]
        seen.append(rows[0])
    assert seen[0] != seen[1] == seen[2]


def test_no_reader_fails_while_commits_joins_and_expiry_go_on(spark: House, log: Log) -> None:
    """As `make bench` does with a thousand commits: old versions go at once here, without the usual minutes."""
    failures: list[BaseException] = []
    reads, stopped = [0], threading.Event()

    def read() -> None:
        lake = Lake(spark.settings.folder)
        try:
            while not stopped.is_set():
                found = lake.trades("SIM:BUSY", 0, BASE * 2)
                assert found.num_rows >= reads[0]
                assert lake.candles("SIM:BUSY", 60, 0, BASE * 2).num_rows <= 1
                reads[0] = found.num_rows
                stopped.wait(0.2)
        except BaseException as error:
            failures.append(error)
        finally:
            lake.close()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        store = Stored(spark, log)
        for number in range(1, COMMITS + 1):
            log.append("trade", *encoded(trade(number, BASE + number * 1_000, coin="BUSY")))
            log.append("candle", *encoded(own("BUSY", str(10 + number), at=number)))
            store.run()
            if number % 4 == 0:
                compacted(spark)
                for table in WRITTEN:
                    upkeep.expire(spark.session, table, BARE, LATER_MS)
    finally:
        stopped.set()
        reader.join()
    assert failures == []
    assert len(rows_of(spark, "trades", "SIM:BUSY")) == COMMITS
    day = [file for file in looked_at(spark.lake, "trades").files if file.low_ms <= BASE + COMMITS * 1_000]
    assert len([file for file in day if file.high_ms >= BASE]) <= 2


def test_files_that_no_snapshot_names_go_when_they_are_old(spark: House, log: Log) -> None:
    commits(spark, log, "ORPHAN", 1)
    before = rows_of(spark, "trades", "SIM:ORPHAN")
    handle = spark.lake.handle(TRADES)
    assert handle is not None
    folder = Path(handle.location().removeprefix("file://"))
    old, young = folder / "data" / "old.parquet", folder / "data" / "young.parquet"
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    for path in (old, young):
        path.write_bytes(b"left by a crash")
    os.utime(old, (1, 1))
    assert remove_orphans(spark.lake, AGE_MS * 2).files >= 1
    assert (old.exists(), young.exists()) == (False, True)
    assert rows_of(spark, "trades", "SIM:ORPHAN") == before
    for snapshot in handle.metadata.snapshots:
        handle.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    young.unlink()


@pytest.fixture
def store(tmp_path: Path, log: Log) -> Any:
    async def opened() -> Store:
        return open_store(f"sqlite:///{tmp_path}/store.db")

    made = log.do(opened)
    yield made
    log.do(made.close)


def test_the_one_writer_does_what_it_is_asked_for_and_says_how_it_went(spark: House, log: Log, store: Store) -> None:
    commits(spark, log, "ASKED", 2)
    keeper = Keeper(spark.settings, spark.session, store, threading.Lock(), log.calls)
    pinned = looked_at(spark.lake, "trades").snapshots[0].id
    log.do(lambda: store.put(pin_key("trades", pinned, "test"), b"", 60.0))
    for step, table in (("compact", "trades"), ("expire", ""), ("compact", "nonsense")):
        ask = Ask(f"{step}-{table}", step, table)  # type: ignore[arg-type]
        log.do(lambda one=ask: store.put(ASK, msgspec.json.encode(one)))
        log.do(keeper._listen)
        answer = msgspec.json.decode(log.do(lambda one=ask: store.get(f"{ANSWER}{one.id}")) or b"", type=Answer)
        assert answer.ended
        assert bool(answer.error) == (table == "nonsense"), answer
        assert answer.count > 0 or step == "expire" or table == "nonsense"
    assert log.do(lambda: store.get(ASK)) is None
    assert pinned in {one.id for one in looked_at(spark.lake, "trades").snapshots}
    state = msgspec.json.decode(log.do(lambda: store.get(STATE)) or b"")
    assert {row["table"] for row in state["tables"]} == set(TABLES)
    assert all(row["ok"] for row in state["tables"])


def test_artery_lake_asks_the_pipeline_that_runs_and_tells_what_came_of_it(spark: House, log: Log) -> None:
    commits(spark, log, "HAND", 2)

    async def opened() -> tuple[Store, Term]:
        store = open_store(spark.settings.store_url())
        term = await StoreLock(store).acquire(LOCK, 300.0)  # as a pipeline holds it
        assert term is not None
        return store, term

    store, term = log.do(opened)
    keeper = Keeper(spark.settings, spark.session, store, threading.Lock(), log.calls)
    said: list[Done] = []
    folder = Path(spark.settings.data.dir)
    person = threading.Thread(target=lambda: said.append(artery("lake", "compact", "trades", "--json", folder=folder)))
    person.start()
    try:
        while person.is_alive():
            log.do(keeper._listen)
            person.join(0.1)
    finally:
        person.join()
        log.do(lambda: StoreLock(store).release(term))
        log.do(store.close)
    assert said[0].code == 0, said[0].err
    done = msgspec.json.decode(said[0].out)
    assert (done["by"], done["step"], done["table"]) == ("the pipeline", "compact", "trades")
    assert done["count"] >= 2


class Asked:
    """Whose turn it is, in a test that wants to know when it is asked for, and how often."""

    def __init__(self) -> None:
        self.count, self.waits, self.turn = 0, threading.Event(), threading.Lock()

    def __enter__(self) -> None:
        self.count += 1
        self.waits.set()
        self.turn.acquire()

    def __exit__(self, *_: object) -> None:
        self.turn.release()


def test_a_snapshot_that_is_pinned_while_expiry_waits_for_a_batch_stays(
    spark: House, log: Log, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits(spark, log, "WAITS", 1)
    pinned, between, kept = looked_at(spark.lake, "trades").snapshots[0].id, Asked(), list[Keep]()
    keeper = Keeper(spark.settings, spark.session, store, between, log.calls)

    def expire(_session: Any, _table: Any, keep: Keep, _now_ms: int) -> int:
        assert log.do(lambda: store.get(EXPIRING)) is not None, "who pins now is told that this goes on"
        kept.append(keep)
        return 0

    monkeypatch.setattr(upkeep, "expire", expire)
    with between.turn:
        person = threading.Thread(
            target=log.do, args=(lambda: keeper.do(Ask("1", "expire", "trades"), lambda *_: None),)
        )
        person.start()
        between.waits.wait(30.0)
        log.do(lambda: store.put(pin_key("trades", pinned, "late"), b"", 60.0))
    person.join()
    assert [set(keep.pinned) for keep in kept] == [{pinned}]
    assert log.do(lambda: store.get(EXPIRING)) is None


def test_a_pin_is_promised_only_for_what_expiry_has_left(spark: House, log: Log) -> None:
    commits(spark, log, "PROMISE", FEW + 1)
    went, stays = (looked_at(spark.lake, "trades").snapshots[at].id for at in (0, -1))

    async def opened() -> Store:
        return open_store(spark.settings.store_url())

    store = log.do(opened)
    log.do(lambda: store.put(EXPIRING, b"", 60.0))
    said: list[BaseException] = []

    def person() -> None:
        try:
            asyncio.run(pin(spark.settings, "trades", went, 1.0))
        except NotFound as error:
            said.append(error)

    asking = threading.Thread(target=person)
    asking.start()
    while not log.do(lambda: store.scan(PIN)):
        asking.join(0.01)
    upkeep.expire(spark.session, TRADES, BARE, LATER_MS)
    log.do(lambda: store.delete(EXPIRING))
    asking.join()
    assert [str(error) for error in said] == [f"snapshot {went} of trades was removed just now; pin a newer one"]
    assert log.do(lambda: store.scan(PIN)) == []
    assert asyncio.run(pin(spark.settings, "trades", stays, 1.0)).snapshot == stays
    for key, _ in log.do(lambda: store.scan(PIN)):
        log.do(lambda key=key: store.delete(key))
    log.do(store.close)


def test_a_batch_may_come_between_two_jobs_that_were_asked_for(spark: House, log: Log, store: Store) -> None:
    for day in (1, 2, 3):
        made = Stored(spark, log)
        for number in (1, 2):
            at = BASE - day * 86_400_000 + number * 1_000
            log.append("trade", *encoded(trade(10 * day + number, at, coin=f"JOBS{day}")))
            made.run()
    between, told = Asked(), list[int]()
    keeper = Keeper(spark.settings, spark.session, store, between, log.calls)
    log.do(lambda: keeper.do(Ask("1", "compact", "trades"), lambda _done, of, _words: told.append(of)))
    assert between.count == len(told) == told[0] >= 3


def test_a_table_that_cannot_be_kept_holds_up_no_other(
    spark: House, log: Log, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits(spark, log, "OTHERS", 2)
    keeper, removed = Keeper(spark.settings, spark.session, store, Asked(), log.calls), list[str]()
    look, reads = upkeep.look, list[str]()

    def sometimes(session: Any, table: Any) -> Any:
        reads.append(table.name)
        if table is OHLC:
            raise RuntimeError("one of its files cannot be read")
        return look(session, table)

    monkeypatch.setattr(upkeep, "look", sometimes)
    monkeypatch.setattr(upkeep, "remove_orphans", lambda _settings: removed.append("orphans") or 0)
    keeper._orphans_at = 0.0
    log.do(keeper._keep)
    assert set(reads) == set(TABLES)
    assert removed == ["orphans"]
    state = msgspec.json.decode(log.do(lambda: store.get(STATE)) or b"")
    assert {row["table"] for row in state["tables"]} == set(TABLES) - {"ohlc"}


def test_files_that_go_while_orphans_are_looked_for_do_not_end_the_search(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.parquet").write_bytes(b"rows")
        (tmp_path / name / "2.parquet").write_bytes(b"rows")
    found = []
    for path, size in _old(tmp_path, LATER_MS):
        found.append((path.parent.name, size))
        for other in tmp_path.glob("*/*.parquet"):
            other.unlink()
        for folder in tmp_path.iterdir():
            if folder != path.parent:
                folder.rmdir()
    assert len(found) == 1
