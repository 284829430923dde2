"""`python -m artery.lake.prepare FOLDER LOG`: make the tables, print how far in each stream of a log the lake has come.
The catalog's address, which may hold a password, is read from standard input.

A process of its own, so that what it needs is not kept by a service that needs it only at its start.
"""

import sys
from pathlib import Path

import msgspec

from artery.errors import ArteryError
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.reads import Lake


def prepare(folder: Path, log: int | None = None, catalog_url: str = "") -> dict[str, str]:
    """Make the tables that are missing; return the positions that the lake's commits name, of this log if one is."""
    catalog = open_catalog(folder, catalog_url)
    ensure_tables(catalog)
    catalog.engine.dispose()
    lake = Lake(folder, log, catalog_url)
    try:
        return lake.positions()
    finally:
        lake.close()


def main() -> None:
    try:
        positions = prepare(Path(sys.argv[1]), int(sys.argv[2]), sys.stdin.read().strip())
    except ArteryError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    print(msgspec.json.encode(positions).decode())


if __name__ == "__main__":
    main()
