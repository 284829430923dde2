"""Where the project's files are."""

from pathlib import Path

import artery

SOURCE = Path(artery.__file__).resolve().parent
ROOT = SOURCE.parents[1]


def python_files(folder: Path) -> list[Path]:
    """Written by hand: what is generated does not count."""
    return sorted(path for path in folder.rglob("*.py") if "_pb2" not in path.name)
