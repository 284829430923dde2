"""What the SQLite store owes beyond the contract."""

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from artery.errors import BadSetting, CannotStart, Unavailable
from artery.store import sqlite as sqlite_store
from artery.store.open import open_store
from artery.store.sqlite import SqliteStore, after_prefix


async def test_a_store_in_memory_is_complete(tmp_path: Path) -> None:
    store = open_store("sqlite://:memory:")
    await store.put("a", b"1")
    assert await store.compare_and_set("a", b"1", b"2")
    assert await store.scan("") == [("a", b"2")]
    await store.close()
    await store.close()
    with pytest.raises(Unavailable):
        await store.get("a")


async def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "deep" / "store.db"))
    await store.put("a", b"1")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep").iterdir()}
    assert set(modes) >= {"store.db", "store.db-wal"}
    assert set(modes.values()) == {0o600}
    await store.close()


async def test_what_has_expired_is_removed_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "PURGE_S", 0.0)
    now = [1_000.0]
    store = SqliteStore(str(tmp_path / "store.db"), clock=lambda: now[0])
    for n in range(50):
        await store.put(f"short {n}", b"1", ttl_s=10)
    await store.put("long", b"1", ttl_s=1_000)
    now[0] += 11
    await store.put("new", b"1")
    await store.close()
    connection = sqlite3.connect(tmp_path / "store.db")
    assert [key for (key,) in connection.execute("SELECT key FROM items ORDER BY key")] == ["long", "new"]
    connection.close()


async def test_a_cancelled_call_leaves_the_store_working(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "store.db"))
    task = asyncio.create_task(store.put("a", b"1"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await store.put("b", b"2")
    assert await store.get("b") == b"2"
    await store.close()


def test_the_end_of_a_prefix_skips_what_is_no_character() -> None:
    assert after_prefix("") is None
    assert after_prefix("ab") == "ac"
    assert after_prefix("a\ud7ff") == "a\ue000"
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\U0010ffff") is None


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"x" * 5_000)
    with pytest.raises(CannotStart, match="damaged"):
        SqliteStore(str(tmp_path / "store.db"))


@pytest.mark.parametrize("url", ["", "ftp://host", "store.db", "sqlite://"])
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(BadSetting, match="sqlite:///"):
        open_store(url)
