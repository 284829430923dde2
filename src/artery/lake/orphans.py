"""`python -m artery.lake.orphans FOLDER`: remove files that no snapshot names, as crashes leave them.
Prints how many. The catalog's address is read from standard input.

Files are listed before the tables are read, and only those count that are older than a day: whatever is being written
or was committed meanwhile is left alone. A process of its own, as `prepare` is.
"""

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table as IcebergTable

from artery.errors import ArteryError
from artery.lake.catalog import translated
from artery.lake.places import path_of
from artery.lake.reads import Lake
from artery.lake.tables import TABLES

AGE_MS = 24 * 3_600_000
"""A file that is younger may belong to a commit that is under way."""


class Removed(msgspec.Struct, frozen=True):
    """How many files were removed, and how large they were."""

    files: int = 0
    bytes: int = 0


def remove_orphans(lake: Lake, now_ms: int, age_ms: int = AGE_MS) -> Removed:
    """Remove what no snapshot of any table names and is older than this."""
    files = size = 0
    for table in TABLES.values():
        with translated("looked at"):
            handle = lake.handle(table)
            if handle is None or urlsplit(handle.location()).scheme != "file":
                continue
            there = list(_old(path_of(handle.location()), now_ms - age_ms))
            # Named by the newest metadata, which is read after the files were listed.
            handle = lake.handle(table)
            named = _named(handle) if there and handle else set()
            for path, length in there:
                if path not in named:
                    path.unlink(missing_ok=True)
                    files, size = files + 1, size + length
    return Removed(files, size)


def _old(folder: Path, before_ms: int) -> Iterable[tuple[Path, int]]:
    """What goes while it is looked at is gone."""
    for inside, _, names in os.walk(folder):
        for path in (Path(inside, name) for name in names):
            with suppress(FileNotFoundError):
                stat = path.stat()
                if stat.st_mtime * 1_000 < before_ms:
                    yield path, stat.st_size


def _named(handle: IcebergTable) -> set[Path]:
    """Every file that the table's metadata leads to."""
    found = {handle.metadata_location} | {entry.metadata_file for entry in handle.metadata.metadata_log}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in handle.metadata.snapshots:
        found.add(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(handle.io)}
    for path, manifest in manifests.items():
        found.add(path)
        entries = manifest.fetch_manifest_entry(handle.io, discard_deleted=False)
        found |= {entry.data_file.file_path for entry in entries}
    return {path_of(name) for name in found}


def main() -> None:
    lake = Lake(Path(sys.argv[1]), None, sys.stdin.read().strip())
    try:
        done = remove_orphans(lake, int(time.time() * 1_000))
    except ArteryError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    finally:
        lake.close()
    print(msgspec.json.encode(done).decode())


if __name__ == "__main__":
    main()
