"""The SQLite bus on bad disks: one sentence that says what to do, nothing half done, and no restart needed."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from artery.bus.reader import SqliteReader
from artery.bus.sqlite import SqliteBus
from artery.errors import ArteryError, CannotStart, Unavailable

ROOT = Path(__file__).parents[2]
BIG = [{"n": "x" * 2_000}] * 20


def _mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return (
        os.geteuid() == 0 and shutil.which("mount") is not None and subprocess.run(command, check=False).returncode == 0
    )


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[bool]:
    """A small disk of its own, where the system lets us have one."""
    done = _mount(folder, options)
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def one_sentence(error: ArteryError) -> bool:
    return "\n" not in str(error) and ": " in str(error) and len(str(error)) < 400


async def fill(bus: SqliteBus) -> tuple[int, Unavailable]:
    """Append until it is refused: how many were acknowledged, and what was said."""
    written = 0
    for _ in range(2_000):
        try:
            written += len(await bus.append("trade", BIG))
        except Unavailable as error:
            return written, error
    raise AssertionError("the disk was never full")


async def fill_and_heal(path: str, make_room: Callable[[], None]) -> None:
    """What must hold on any disk that fills up: refused, never acknowledged, and well again with the space."""
    bus = SqliteBus(path)
    await bus.ensure_group("trade", "g")
    written, error = await fill(bus)
    assert one_sentence(error), error
    assert error.temporary
    assert await bus.head("trade") == str(written)
    assert len(await bus.read("trade", limit=100_000)) == written
    make_room()
    more = await bus.append("trade", BIG)
    assert more == [str(written + 1 + n) for n in range(20)]
    entries = await bus.read_new("trade", "g", "a", limit=10)
    assert await bus.ack("trade", "g", [entry.id for entry in entries]) == 10
    await bus.close()
    again = SqliteBus(path)
    assert await again.head("trade") == more[-1]
    await again.close()


_LIMITED = """
import asyncio, resource, sys
from tests.bus.test_sqlite_trouble import fill_and_heal
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
asyncio.run(fill_and_heal(sys.argv[1], lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))))
print("healed")
"""


async def fill_and_heal_a_file_of_limited_size(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _LIMITED, str(folder / "bus.db"), cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(120):
        out, said = await process.communicate()
    assert (out, process.returncode) == (b"healed\n", 0), said.decode()


async def test_a_file_that_may_not_grow_refuses_and_heals_by_itself(tmp_path: Path) -> None:
    await fill_and_heal_a_file_of_limited_size(tmp_path)


async def test_a_full_disk_refuses_and_heals_by_itself(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=4m") as small:
        if not small:  # who may not mount a small disk has the limit on a file's size
            await fill_and_heal_a_file_of_limited_size(tmp_path)
            return
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 2_000_000)
        await fill_and_heal(str(disk / "bus.db"), ballast.unlink)


def take_all_space(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast, suppress(OSError):
        for _ in range(1_000):
            ballast.write(b"x" * 4_096)


async def test_a_start_on_a_full_disk_is_refused_with_one_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=64k") as small:
        take_all_space(disk / "ballast")
        with pytest.raises(CannotStart) as error:
            SqliteBus(str(disk / "bus.db") if small else "/dev/full/bus.db")
        assert one_sentence(error.value), error.value


async def test_a_place_that_cannot_be_written_is_refused_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "size=1m,ro") as read_only:
        if not read_only:
            disk.chmod(0o500)
        places = [Path("/proc/nothing/bus.db"), tmp_path / "file" / "bus.db", tmp_path]
        if read_only or os.geteuid() != 0:
            places.append(disk / "bus.db")
        for place in places:
            with pytest.raises(CannotStart) as error:
                SqliteBus(str(place))
            assert one_sentence(error.value), error.value
            assert str(place) in str(error.value)
    disk.chmod(0o700)


async def test_a_file_that_is_no_log_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    path.write_bytes(b"not a database " * 1_000)
    with pytest.raises(CannotStart, match="damaged") as error:
        SqliteBus(str(path))
    assert one_sentence(error.value)
    assert path.read_bytes() == b"not a database " * 1_000


async def test_a_log_cut_short_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    bus = SqliteBus(str(path))
    for _ in range(20):
        await bus.append("trade", BIG)
    await bus.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CannotStart, match="damaged") as error:
        SqliteBus(str(path))
    assert one_sentence(error.value)
    with pytest.raises(CannotStart, match="damaged"):
        SqliteReader(str(path)).head("trade")


def cut_to(path: Path, part: float) -> None:
    os.truncate(path, int(path.stat().st_size * part))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
async def test_after_a_torn_write_everything_before_the_tear_is_there(tmp_path: Path, kept: float) -> None:
    path, copy = tmp_path / "bus.db", tmp_path / "copy" / "bus.db"
    copy.parent.mkdir()
    bus = SqliteBus(str(path))
    for n in range(60):
        await bus.append("trade", [{"n": str(n * 5 + k)} for k in range(5)])
    for end in ("", "-wal"):  # as the files lie on the disk when the power goes
        shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    await bus.close()
    cut_to(Path(f"{copy}-wal"), kept)
    torn = SqliteBus(str(copy))
    entries = await torn.read("trade")
    assert len(entries) % 5 == 0
    assert (kept < 0.5) or entries
    assert [entry.fields["n"] for entry in entries] == [str(n) for n in range(len(entries))]
    assert await torn.append("trade", [{"n": "new"}]) == [str(len(entries) + 1)]
    await torn.close()


async def test_a_log_that_another_program_locks_is_said_to_be_and_goes_on_afterwards(tmp_path: Path) -> None:
    bus = SqliteBus(str(tmp_path / "bus.db"))
    await bus.append("trade", [{"n": "0"}])
    other = sqlite3.connect(tmp_path / "bus.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked") as error:
        await bus.append("trade", [{"n": "1"}])
    assert one_sentence(error.value)
    assert len(await bus.read("trade")) == 1
    other.execute("ROLLBACK")
    other.close()
    assert await bus.append("trade", [{"n": "2"}]) == ["2"]
    await bus.close()


async def test_nothing_that_was_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom artery.bus.sqlite import SqliteBus\n"
        "async def main():\n bus = SqliteBus(sys.argv[1])\n n = 0\n while True:\n"
        "  print(*await bus.append('trade', [{'n': str(n + k)} for k in range(7)]), flush=True)\n  n += 7\n"
        "asyncio.run(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path / "bus.db"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    acknowledged: list[str] = []
    async with asyncio.timeout(60):
        for _ in range(30):
            acknowledged = (await process.stdout.readline()).decode().split()
        process.kill()
        rest = (await process.stdout.read()).decode().splitlines(keepends=True)
        await process.wait()
    whole = [line for line in rest if line.endswith("\n")]
    last = int((whole[-1].split() if whole else acknowledged)[-1])
    bus = SqliteBus(str(tmp_path / "bus.db"))
    entries = await bus.read("trade", limit=100_000)
    assert len(entries) >= last
    assert len(entries) % 7 == 0
    assert [entry.fields["n"] for entry in entries] == [str(n) for n in range(len(entries))]
    await bus.close()
