"""Tables of history in the shape that people work with."""

import warnings
from importlib import import_module
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from artery.errors import BadInput

Kind = Literal["arrow", "pandas", "polars"]


def shaped(table: pa.Table, to: Kind, *, time: str) -> Any:
    """The table as it is (exact decimals, Unix ms), or a DataFrame with UTC times and floats, `time` its index."""
    if to == "arrow":
        return table
    if to == "pandas":
        return _plain(table, time).to_pandas().set_index(time)
    if to != "polars":
        raise BadInput(f"{to!r:.20} is not a kind of table: use arrow, pandas or polars")
    try:
        return import_module("polars").from_arrow(_plain(table, time))
    except ImportError as error:
        raise BadInput("polars is not installed here: `pip install polars`, or ask for arrow or pandas") from error


def cut_short(rows: int, cursor: str) -> None:
    """Warn whoever asked for more than one call brings: what came is the oldest of it."""
    words = f"these are the oldest {rows:,} rows, and there are more: ask again with since={cursor.lstrip('s')}"
    warnings.warn(words, stacklevel=2)


def incomplete(error: str) -> None:
    """Warn whoever asked for history of which only a part could be fetched."""
    warnings.warn(f"only a part of it could be fetched, and the rest is missing: {error}", stacklevel=2)


def _plain(table: pa.Table, time: str) -> pa.Table:
    """Floats for exact numbers, and a time for the milliseconds."""
    for index, field in enumerate(table.schema):
        column: Any = table.column(index)
        if pa.types.is_decimal(field.type):
            table = table.set_column(index, field.name, pc.cast(column, pa.float64()))
        elif field.name == time:
            table = table.set_column(index, time, column.cast(pa.timestamp("ms", tz="UTC")))
    return table
