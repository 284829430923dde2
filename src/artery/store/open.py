"""The store that a URL names."""

from artery.errors import BadSetting
from artery.store.base import Store


def open_store(url: str) -> Store:
    """`sqlite:///path` → a SQLite file, `redis://…` → Redis; a driver is imported only if it is needed."""
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        from artery.store.sqlite import SqliteStore
        from artery.store.sqlite_file import file_of

        return SqliteStore(file_of(url))
    if scheme in ("redis", "rediss", "unix"):
        from artery.store.redis import RedisStore

        return RedisStore(url)
    raise BadSetting(
        "a store cannot be at such an address: ART_STORE_URL takes sqlite:///path, redis://host:6379/0, or nothing"
    )
