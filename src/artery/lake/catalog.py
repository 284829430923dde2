"""The lake's catalog, which Spark (JDBC) and PyIceberg share: a SQLite file, or a database of PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
)
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import DayTransform, IdentityTransform, MonthTransform, Transform
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from artery.errors import CannotStart, Unavailable
from artery.lake.places import NAME, catalog_file, on_server, sql_of, warehouse
from artery.lake.tables import GUARDS, NAMESPACE, PROPERTIES, TABLES, Table

_TRANSFORMS: dict[str, type[Transform]] = {
    "identity": IdentityTransform,
    "day": DayTransform,
    "month": MonthTransform,
}


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the catalog, of Arrow and of the disk become `Unavailable`."""
    try:
        yield
    except (SQLAlchemyError, CommitFailedException, NoSuchTableError, pa.ArrowException, OSError) as error:
        raise Unavailable(f"the lake could not be {doing}: {_short(error)}") from error


def open_catalog(folder: Path, url: str = "", *, create: bool = True) -> SqlCatalog:
    """The catalog at this address, or of this data folder; it is made if it is not there, unless `create` is off."""
    file = catalog_file(folder)
    try:
        if create:
            file.parent.mkdir(parents=True, exist_ok=True)
        catalog = SqlCatalog(
            NAME,
            uri=sql_of(folder, url),
            warehouse=warehouse(folder),
            init_catalog_tables="true" if create else "false",
            pool_pre_ping="true" if on_server(url) else "false",
        )
        if create and not on_server(url):
            with catalog.engine.connect() as connection:
                connection.execute(text("PRAGMA journal_mode=WAL"))
    except ModuleNotFoundError as error:
        raise CannotStart(f"the lake's catalog needs {error.name}: install artery with the extra postgres") from error
    except (SQLAlchemyError, OSError) as error:
        if not create:
            raise Unavailable(f"the lake could not be read: {_short(error)}") from error
        if on_server(url):
            raise CannotStart(f"the lake's catalog cannot be opened, {_short(error)}; check its server") from error
        raise CannotStart(f"the lake in {file.parent} cannot be opened, {_short(error)}; check the disk") from error
    return catalog


def ensure_tables(catalog: SqlCatalog) -> None:
    """Make the tables that are missing; a table that is there must have the columns defined here, and gets what its
    commits rely on if an older version made it."""
    with translated("prepared"):
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(NAMESPACE)
        existing = {name for _, name in catalog.list_tables(NAMESPACE)}
        for table in TABLES.values():
            if table.name in existing:
                found = catalog.load_table(table.full_name)
                _check(found, table)
                _guard(found)
            else:
                _create(catalog, table)


def _create(catalog: SqlCatalog, table: Table) -> None:
    with catalog.create_table_transaction(table.full_name, schema=table.schema, properties=PROPERTIES) as transaction:
        with transaction.update_spec() as spec:
            for column, transform in table.partition:
                spec.add_field(column, _TRANSFORMS[transform](), f"{column}_{transform}")


def _check(found: IcebergTable, table: Table) -> None:
    have = {field.name: str(field.type) for field in _arrow(found)}
    want = {field.name: str(field.type) for field in table.schema}
    if have != want:
        names = ", ".join(sorted(name for name in {*have, *want} if have.get(name) != want.get(name)))
        raise CannotStart(f"table {table.full_name} differs from this version in {names}; use another data folder")


def _guard(found: IcebergTable) -> None:
    wanted = {name: PROPERTIES[name] for name in GUARDS if found.properties.get(name) != PROPERTIES[name]}
    if wanted:
        with found.transaction() as transaction:
            transaction.set_properties(wanted)


def _arrow(found: IcebergTable) -> pa.Schema:
    schema = found.schema().as_arrow()
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The same type without PyIceberg's large variants and field ids."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind


def _short(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0][:200] if str(error) else type(error).__name__
