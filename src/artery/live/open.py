"""The pub/sub and the leader lock that a URL names."""

from artery.errors import BadSetting
from artery.live.base import LeaderLock, PubSub
from artery.store.base import Store


def open_pubsub(url: str) -> PubSub:
    """Nothing → in this process."""
    if url:
        raise _unknown(url)
    from artery.live.memory import MemoryPubSub

    return MemoryPubSub()


def open_lock(url: str, store: Store) -> LeaderLock:
    """Nothing → a lock in the store."""
    if url:
        raise _unknown(url)
    from artery.live.lock import StoreLock

    return StoreLock(store)


def _unknown(url: str) -> BadSetting:
    scheme = url.partition("://")[0]
    return BadSetting(f"pub/sub and the leader lock cannot be at {scheme!r:.20}: leave ART_LIVE_URL empty")
