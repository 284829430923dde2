"""What the lock in a store owes beyond the contract."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from artery.errors import BadInput, BadSetting
from artery.live.lock import StoreLock
from artery.live.memory import MemoryPubSub
from artery.live.open import open_lock, open_pubsub
from artery.live.process import Process, this_process
from artery.store.sqlite import SqliteStore
from tests.live.virtual import DictStore

KEY = "artery:lock:stream:sim"

_HOLD = """
import asyncio, sys
from artery.live.lock import StoreLock
from artery.store.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    term = await StoreLock(store).acquire(sys.argv[2], 3600)
    print(term.epoch, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.close()

asyncio.run(main())
"""


class Time:
    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.steady = 50.0

    def lock(self, store: DictStore) -> StoreLock:
        return StoreLock(store, clock=lambda: self.wall, monotonic=lambda: self.steady)


async def test_the_lock_of_a_process_that_was_killed_is_free_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _HOLD, path, KEY, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        epoch = int(await process.stdout.readline())
    store = SqliteStore(path)
    lock = StoreLock(store)
    assert await lock.acquire(KEY, 30) is None
    process.kill()
    await process.wait()
    term = await lock.acquire(KEY, 30)
    assert term is not None
    assert term.epoch > epoch
    await store.close()


async def test_a_process_that_took_over_the_number_of_a_dead_one_does_not_pass_for_it() -> None:
    me = this_process()
    assert not me.is_dead()
    assert Process(me.pid, str(int(me.started) + 1), me.host).is_dead()
    assert not Process(me.pid, "1", "another machine").is_dead()
    assert not Process(me.pid, "", me.host).is_dead()
    assert not Process(os.getppid(), "", "").is_dead()


async def test_the_epoch_is_the_time_or_one_more_than_the_last_whichever_is_higher() -> None:
    time, store = Time(), DictStore()
    lock = time.lock(store)
    first = await lock.acquire(KEY, 30)
    assert first is not None
    assert first.epoch == 1_700_000_000_000
    time.wall -= 3_600
    await lock.release(first)
    second = await lock.acquire(KEY, 30)
    assert second is not None
    assert second.epoch == first.epoch + 1


async def test_a_clock_set_back_does_not_keep_the_lock_of_a_holder_that_is_gone() -> None:
    time, store = Time(), DictStore()
    assert await time.lock(store).acquire(KEY, 30) is not None
    time.wall -= 3_600
    watcher = time.lock(store)
    assert await watcher.acquire(KEY, 30) is None
    time.steady, time.wall = time.steady + 29, time.wall + 29
    assert await watcher.acquire(KEY, 30) is None
    time.steady, time.wall = time.steady + 2, time.wall + 2
    assert await watcher.acquire(KEY, 30) is not None


async def test_a_clock_set_back_does_not_take_the_lock_from_a_holder_that_renews() -> None:
    time, store = Time(), DictStore()
    holder, watcher = time.lock(store), time.lock(store)
    term = await holder.acquire(KEY, 30)
    time.wall -= 3_600
    for _ in range(12):
        assert await watcher.acquire(KEY, 30) is None
        time.steady, time.wall = time.steady + 10, time.wall + 10
        assert term is not None
        term = await holder.renew(term, 30)
    assert term is not None


@pytest.mark.parametrize("jump_s", [3_600, -3_600])
async def test_a_clock_that_is_set_takes_the_lock_from_nobody_who_renews(jump_s: int) -> None:
    time, store = Time(), DictStore()
    holder, watcher = time.lock(store), time.lock(store)
    term = await holder.acquire(KEY, 30)
    for turn in range(12):
        if turn != 6:  # then the renewal just before the jump was never looked at
            assert await watcher.acquire(KEY, 30) is None
        time.steady, time.wall = time.steady + 10, time.wall + 10
        assert term is not None
        term = await holder.renew(term, 30)
        time.wall += jump_s if turn == 6 else 0
        assert await watcher.acquire(KEY, 30) is None
    assert term is not None
    time.steady, time.wall = time.steady + 31, time.wall + 31
    assert await holder.renew(term, 30) is None
    assert await watcher.acquire(KEY, 30) is not None


async def test_what_is_no_lock_is_refused_and_left_alone() -> None:
    store = DictStore()
    store.items[KEY] = b"something else"
    with pytest.raises(BadInput, match="not a lock"):
        await Time().lock(store).acquire(KEY)
    with pytest.raises(BadInput, match="TTL"):
        await Time().lock(store).acquire("another", 0)
    assert store.items == {KEY: b"something else"}


async def test_without_a_url_everything_is_in_this_process() -> None:
    pubsub = open_pubsub("")
    assert isinstance(pubsub, MemoryPubSub)
    assert isinstance(open_lock("", DictStore()), StoreLock)
    for refused in (lambda: open_pubsub("ftp://host"), lambda: open_lock("ftp://host", DictStore())):
        with pytest.raises(BadSetting, match="ART_LIVE_URL"):
            refused()
    await pubsub.close()
