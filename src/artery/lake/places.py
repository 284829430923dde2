"""Where the lake is and what its commits are signed with: what Spark's side must know, without a driver."""

from pathlib import Path

NAME = "artery"
"""The catalog's name, the same for Spark and PyIceberg."""

QUERY, BATCH, POSITIONS = "artery.query", "artery.batch", "artery.positions"
"""What each commit's summary names: the query, its batch, and how far in each stream it has come."""


def catalog_file(folder: Path) -> Path:
    return folder / "lake" / "catalog.db"


def warehouse(folder: Path) -> str:
    """Where the tables' files are; Spark and PyIceberg must be told the same text."""
    return f"file://{folder.absolute()}/lake/warehouse"
