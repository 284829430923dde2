"""What this machine has: Spark's jars, free ports, room on the disk. Each look is bounded in time."""

import errno
import os
import shutil
import socket
from pathlib import Path

import artery
from artery.settings import Settings

LOOK_S = 20.0
ROOM_MIN_BYTES = 64 * 1024 * 1024
ROOT = Path(artery.__file__).resolve().parents[2]
"""The project's own folder, where set-up has put the jars and the page."""


def jars(settings: Settings) -> list[Path]:
    """Spark's jars, as set-up has fetched them."""
    folder = Path(settings.pipeline.jars) if settings.pipeline.jars else ROOT / ".cache" / "jars" / "spark"
    return sorted(folder.glob("*.jar"))


def page() -> Path | None:
    """The built page, if it was built."""
    folder = ROOT / "web" / "dist"
    return folder if (folder / "index.html").is_file() else None


def why_not_bound(host: str, port: int) -> str:
    """Why nothing can listen here, in a few words; empty if something can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            return {errno.EADDRINUSE: "taken", errno.EACCES: "not allowed"}.get(error.errno or 0, error.strerror or "")
        except OverflowError:
            return "not a port"
    return ""


def why_not_written(folder: Path) -> str:
    """Why nothing can be kept in this folder, in a few words; empty if it can. The folder is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        try:
            with probe.open("wb") as file:
                file.write(bytes(64 * 1024))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return {errno.EROFS: "is on a read-only mount", errno.ENOSPC: "is on a full disk"}.get(
            error.errno or 0, f"cannot be written ({error.strerror})"
        )
    if shutil.disk_usage(folder).free < ROOM_MIN_BYTES:
        return f"has less than {ROOM_MIN_BYTES // 2**20} MiB of free space"
    return ""
