"""The bus that a URL names."""

from artery.bus.base import Bus
from artery.errors import BadSetting


def open_bus(url: str, base: str = "md_stream") -> Bus:
    """`sqlite:///path` → a SQLite file, `redis://…` → Redis Streams, `kafka://…` → Kafka; a driver is imported only if
    it is needed."""
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        from artery.bus.sqlite import SqliteBus
        from artery.store.sqlite_file import file_of

        return SqliteBus(file_of(url), base)
    if scheme in ("redis", "rediss", "unix"):
        from artery.bus.redis import RedisBus

        return RedisBus(url, base)
    if scheme == "kafka":
        from artery.bus.kafka import KafkaBus

        return KafkaBus(url, base)
    raise BadSetting(
        "the log cannot be at such an address: "
        "ART_BUS_URL takes sqlite:///path, redis://host:6379/0, kafka://host:9092, or nothing"
    )
