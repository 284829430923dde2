"""Where the lake is and what its commits are signed with: what Spark's side must know, without a driver."""

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from artery.errors import BadSetting

NAME = "artery"
"""The catalog's name, the same for Spark and PyIceberg."""

QUERY, BATCH, POSITIONS, LOG = "artery.query", "artery.batch", "artery.positions", "artery.log"
"""What each commit's summary names: the query, its batch, how far in each stream it has come, and of which log."""

CONNECT_S = 5
"""How long a catalog on a server may take to answer a connection."""
_SERVER = ("postgresql", "postgres")


def catalog_file(folder: Path) -> Path:
    return folder / "lake" / "catalog.db"


def warehouse(folder: Path) -> str:
    """Where the tables' files are; Spark and PyIceberg must be told the same text."""
    return f"file://{folder.absolute()}/lake/warehouse"


def path_of(location: str) -> Path:
    """The path of a file that Iceberg names: `file:///a%20b` → `/a b`."""
    return Path(unquote(urlsplit(location).path)) if location.startswith("file:") else Path(location)


def on_server(catalog_url: str) -> bool:
    """Whether the catalog is a PostgreSQL database; else it is a SQLite file in the data folder."""
    return bool(catalog_url and _server(catalog_url))


def sql_of(folder: Path, catalog_url: str = "") -> str:
    """The catalog's address as PyIceberg's side knows it."""
    if not on_server(catalog_url):
        return f"sqlite:///{catalog_file(folder)}"
    at = _server(catalog_url)
    query = dict(parse_qsl(at.query))
    query.setdefault("connect_timeout", str(CONNECT_S))
    return at._replace(scheme="postgresql+psycopg2", query=urlencode(query)).geturl()


def jdbc_of(folder: Path, catalog_url: str = "") -> dict[str, str]:
    """The same for Spark's side: the catalog's properties, user and password apart, because an address is logged."""
    if not on_server(catalog_url):
        return {"uri": f"jdbc:sqlite:{catalog_file(folder)}?journal_mode=WAL&busy_timeout=10000"}
    at = _server(catalog_url)
    query = {name: value for name, value in parse_qsl(at.query) if name != "connect_timeout"}
    found = {"uri": f"jdbc:postgresql://{_address(at)}{at.path}?{urlencode({'connectTimeout': CONNECT_S} | query)}"}
    for name, value in (("jdbc.user", at.username), ("jdbc.password", at.password)):
        if value:
            found[name] = unquote(value)
    return found


def _server(catalog_url: str) -> SplitResult:
    at = urlsplit(catalog_url)
    if at.scheme not in _SERVER or not at.hostname or len(at.path) < 2:
        raise BadSetting(
            "ART_LAKE_CATALOG_URL takes postgresql://user:password@host:5432/database, or nothing for a SQLite file"
            " in the data folder"
        )
    return at


def _address(at: SplitResult) -> str:
    return at.netloc.rpartition("@")[2]
