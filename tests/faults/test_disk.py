"""A disk that fills up, and a file that was torn."""

import os
import shutil
from pathlib import Path

from prometheus_client import REGISTRY

from artery.bus.open import open_bus
from artery.bus.sqlite import SqliteBus
from tests.bus.test_sqlite_trouble import mounted
from tests.faults.checker import Gap, Seen, Sight, Verdict, check
from tests.faults.logs import Log
from tests.faults.processes import Stage, until
from tests.faults.records import lines, sent_of
from tests.faults.traffic import STREAM, WRITER, Traffic
from tests.faults.trial import Trial

WAL_HEADER, FRAME_HEADER, FRAME = 32, 24, 24 + 4_096


async def sights(bus: SqliteBus) -> list[Sight]:
    """Everything in the log, in its order."""
    found: list[Sight] = []
    after = "0"
    while page := await bus.read(STREAM, after, 10_000):
        found += [Seen(entry.fields["id"], entry.id) for entry in page]
        after = page[-1].id
    return found


def refusals(file: str) -> int:
    return sum(bool(line.error) for line in lines(file))


def fill(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)


async def test_a_full_disk_acknowledges_nothing_and_goes_on_without_a_restart(trial: Trial, stage: Stage) -> None:
    disk = stage.folder / "disk"
    disk.mkdir()
    with mounted(disk, "size=6m") as small:
        limit = 0 if small else 2_000_000  # who may not mount a small disk has the limit on a file's size
        fill(disk / "ballast", 3_500_000 if small else 0)
        log = Log("sqlite", f"sqlite:///{disk}/bus.db", "fault", None)
        traffic = Traffic(stage, log, trial)
        writer = traffic.generate(pad_bytes=4_000, every_ms=0, limit_bytes=limit)
        await until(lambda: refusals(stage.file(WRITER)) >= 3, "the disk is full")
        said = next(line.error for line in lines(stage.file(WRITER)) if line.error)
        assert "\n" not in said
        if small:
            (disk / "ballast").unlink()
        else:
            writer.nudge()
        await traffic.flows(50)
        await writer.stop()
        bus = open_bus(log.url, log.base)
        assert isinstance(bus, SqliteBus)
        found = await sights(bus)
        trial.judge(check(sent_of([stage.file(WRITER)]), found))
        acked = {id_ for sent in sent_of([stage.file(WRITER)]) for id_ in sent.acked}
        assert {sight.id for sight in found if isinstance(sight, Seen)} == acked
        await bus.close()


def torn_bytes() -> float:
    return REGISTRY.get_sample_value("artery_bus_torn_bytes_total") or 0.0


def wal_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def size_of(path: Path) -> int:
    return path.stat().st_size


def copied(path: Path, folder: Path) -> Path:
    """The files of a log as they lie on the disk."""
    folder.mkdir()
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{folder}/bus.db{end}")
    return folder / "bus.db"


def tear(wal: Path, at: int, trial: Trial) -> bool:
    """Cut the file there, of which some did not arrive either; whether that is in the midst of a frame."""
    os.truncate(wal, at)
    page = (at - WAL_HEADER) % FRAME - FRAME_HEADER
    with wal.open("r+b") as torn:
        if page > 0 and trial.dice.random() < 0.5:
            torn.seek(at - trial.dice.randint(1, page))
            torn.write(trial.dice.randbytes(at - torn.tell()))
    return (at - WAL_HEADER) % FRAME != 0


async def test_of_a_torn_file_everything_before_the_tear_is_read_and_the_tail_is_cut_and_counted(
    trial: Trial, sqlite_log: Log, stage: Stage
) -> None:
    traffic = Traffic(stage, sqlite_log, trial)
    writer = traffic.generate(every_ms=5)
    await traffic.flows(200)
    writer.kill()
    path, sent = stage.folder / "bus.db", sent_of([stage.file(WRITER)])[0]
    size, verdict = size_of(wal_of(path)), Verdict()
    for number in range(trial.pick(8, 60)):
        copy, before = copied(path, stage.folder / f"copy{number}"), torn_bytes()
        at = trial.dice.randint(WAL_HEADER + FRAME, size)
        in_a_frame = tear(wal_of(copy), at, trial)
        bus = SqliteBus(str(copy), sqlite_log.base)
        found = await sights(bus)
        await bus.close()
        ids = [sight.id for sight in found if isinstance(sight, Seen)]
        assert ids == sent.ids[: len(ids)], f"not a beginning of what was written; {trial.again}"
        assert torn_bytes() > before or not in_a_frame, f"cut at {at} of {size} and not counted; {trial.again}"
        verdict += check([sent], [*found, Gap("the tail was cut and counted")])
    trial.judge(verdict)
