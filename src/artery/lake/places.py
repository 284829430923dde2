"""Where the lake is and what its commits are signed with: what Spark's side must know, without a driver."""

from pathlib import Path

NAME = "artery"
"""The catalog's name, the same for Spark and PyIceberg."""

QUERY, BATCH, POSITIONS, LOG = "artery.query", "artery.batch", "artery.positions", "artery.log"
"""What each commit's summary names: the query, its batch, how far in each stream it has come, and of which log."""


def catalog_file(folder: Path) -> Path:
    return folder / "lake" / "catalog.db"


def warehouse(folder: Path) -> str:
    """Where the tables' files are; Spark and PyIceberg must be told the same text."""
    return f"file://{folder.absolute()}/lake/warehouse"
