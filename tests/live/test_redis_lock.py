"""The leader lock over a Redis server that goes away, comes back, or comes back empty."""

import asyncio
import time
from collections.abc import Iterator

import pytest
import redis

from artery.errors import BadInput, Unavailable
from artery.live.lock_redis import RedisLock
from artery.live.open import open_lock
from artery.store.redis import RedisStore
from tests.servers import RedisServer, until

KEY = "artery:lock:stream:sim"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    made = RedisServer(None, "--appendfsync", "always")
    yield made.start()
    made.end()


async def test_the_lock_is_one_key_with_a_token_and_a_ttl(server: RedisServer) -> None:
    store = RedisStore(server.url)
    lock = open_lock(server.url, store)
    term = await lock.acquire(KEY, 30)
    assert term is not None
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.get(KEY) == term.token
        assert 0 < client.pttl(KEY) <= 30_000
        assert client.get(f"{KEY}:epoch") == str(term.epoch)
        assert abs(term.epoch - time.time() * 1_000) < 60_000
        await lock.release(term)
        assert client.get(KEY) is None
    for ttl_s in (0, -1, float("nan"), 1e10):
        with pytest.raises(BadInput):
            await lock.acquire(KEY, ttl_s)
    await lock.close()
    await store.close()


async def test_a_lock_survives_a_killed_server_and_its_epoch_an_emptied_one(server: RedisServer) -> None:
    one, two = RedisLock(server.url), RedisLock(server.url)
    term = await one.acquire(KEY, 600)
    assert term is not None
    server.kill()
    with pytest.raises(Unavailable):
        await one.renew(term, 600)
    server.start()
    assert await two.acquire(KEY, 600) is None
    assert await one.renew(term, 600) is not None
    server.kill()
    server.forget()
    server.start()
    assert await one.renew(term, 600) is None
    newer = await two.acquire(KEY, 600)
    assert newer is not None
    assert newer.epoch > term.epoch
    await one.close()
    await two.close()


async def won_unheard(server: RedisServer, lock: RedisLock) -> None:
    """Have the lock's call reach a frozen server, which does it when it wakes, and nobody hears."""
    assert await lock.acquire("another", 600) is not None  # there is a connection, on which it is sent at once
    with server.frozen():
        with pytest.raises(Unavailable):
            await lock.acquire(KEY, 600)
    with redis.Redis.from_url(server.url) as client:
        await until(lambda: client.get(KEY) is not None)


async def test_a_lock_won_unheard_is_taken_over_by_who_won_it(server: RedisServer) -> None:
    one, two = RedisLock(server.url), RedisLock(server.url)
    await won_unheard(server, one)
    term = await one.acquire(KEY, 600)
    assert term is not None
    assert await two.acquire(KEY, 600) is None
    assert await one.renew(term, 600) is not None
    await one.close()
    await two.close()


async def test_a_lock_won_unheard_is_not_forgotten_by_a_call_that_reached_nobody(server: RedisServer) -> None:
    one, two = RedisLock(server.url), RedisLock(server.url)
    await won_unheard(server, one)
    given_up = asyncio.create_task(one.acquire(KEY, 600))
    await asyncio.sleep(0)
    given_up.cancel()  # before there is a connection
    with pytest.raises(asyncio.CancelledError):
        await given_up
    term = await one.acquire(KEY, 600)
    assert term is not None
    assert await two.acquire(KEY, 600) is None
    await one.release(term)
    newer = await two.acquire(KEY, 600)
    assert newer is not None
    assert newer.epoch > term.epoch
    await one.close()
    await two.close()
