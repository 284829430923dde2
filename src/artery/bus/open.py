"""The bus that a URL names."""

from artery.bus.base import Bus
from artery.errors import BadSetting


def open_bus(url: str, base: str = "md_stream") -> Bus:
    """`sqlite:///path` → a SQLite file; the driver is imported only then."""
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        from artery.bus.sqlite import SqliteBus
        from artery.store.sqlite_file import file_of

        return SqliteBus(file_of(url), base)
    raise BadSetting(f"the log cannot be at {scheme!r:.20}: ART_BUS_URL takes sqlite:///path, or nothing")
