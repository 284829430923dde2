"""Redis as a place where buses, stores, pub/subs and locks live: one real server for all tests, a database for each."""

import msgspec
import redis

from artery.live.base import LeaderLock, Term
from artery.live.lock_redis import RedisLock
from artery.store.base import Store
from artery.store.redis import RedisStore
from tests.servers import RedisServer

SERVER = RedisServer()


def age(url: str, seconds: float) -> None:
    """Let time pass for everything with a TTL."""
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            left_ms = client.pttl(key)
            if left_ms >= 0 and not key.endswith(b":epoch"):
                client.pexpire(key, max(0, left_ms - round(seconds * 1_000)))


class RedisStoreKit:
    def __init__(self) -> None:
        self._url = SERVER.new_url()
        self._open: list[Store] = []

    def open(self) -> Store:
        self._open.append(RedisStore(self._url))
        return self._open[-1]

    async def advance(self, seconds: float) -> None:
        age(self._url, seconds)

    async def close(self) -> None:
        for store in self._open:
            await store.close()


class SlowLock:
    """A lock whose TTLs are a thousand times as long, so that they lapse only by the kit's `advance`."""

    def __init__(self, lock: RedisLock) -> None:
        self._lock = lock

    async def acquire(self, key: str, ttl_s: float = 30.0) -> Term | None:
        return _scaled(await self._lock.acquire(key, ttl_s * 1_000))

    async def renew(self, term: Term, ttl_s: float = 30.0) -> Term | None:
        return _scaled(await self._lock.renew(term, ttl_s * 1_000))

    async def release(self, term: Term) -> None:
        await self._lock.release(term)

    async def close(self) -> None:
        await self._lock.close()


def _scaled(term: Term | None) -> Term | None:
    return None if term is None else msgspec.structs.replace(term, deadline=term.deadline / 1_000)


class RedisLockKit:
    def __init__(self) -> None:
        self._url = SERVER.new_url()
        self._now = 1_000.0
        self._locks: list[SlowLock] = []

    def contender(self) -> LeaderLock:
        self._locks.append(SlowLock(RedisLock(self._url, monotonic=lambda: self._now * 1_000)))
        return self._locks[-1]

    def monotonic(self) -> float:
        return self._now

    async def advance(self, seconds: float) -> None:
        self._now += seconds
        age(self._url, seconds * 1_000)

    async def close(self) -> None:
        for lock in self._locks:
            await lock.close()
