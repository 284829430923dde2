"""The pub/sub and the leader lock that a URL names."""

from artery.errors import BadSetting
from artery.live.base import LeaderLock, PubSub
from artery.store.base import Store


def open_pubsub(url: str) -> PubSub:
    """Nothing → in this process, `redis://…` → through Redis."""
    if _is_redis(url):
        from artery.live.redis import RedisPubSub

        return RedisPubSub(url)
    if url:
        raise _unknown()
    from artery.live.memory import MemoryPubSub

    return MemoryPubSub()


def open_lock(url: str, store: Store) -> LeaderLock:
    """Nothing → a lock in the store, `redis://…` → one in Redis."""
    if _is_redis(url):
        from artery.live.lock_redis import RedisLock

        return RedisLock(url)
    if url:
        raise _unknown()
    from artery.live.lock import StoreLock

    return StoreLock(store)


def _is_redis(url: str) -> bool:
    return url.partition("://")[0] in ("redis", "rediss", "unix")


def _unknown() -> BadSetting:
    return BadSetting(
        "pub/sub and the leader lock cannot be at such an address: ART_LIVE_URL takes redis://host:6379/0, or nothing"
    )
