"""The lake that the settings name."""

from artery.lake.reads import Lake
from artery.settings import Settings


def open_lake(settings: Settings, log: int | None = None) -> Lake:
    """Reads of this data folder's tables, with positions of the log of this id."""
    return Lake(settings.folder, log, settings.lake.catalog_url)
