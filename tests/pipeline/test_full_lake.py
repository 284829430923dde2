"""A lake whose disk is full: nothing of a batch is seen half, nothing is acknowledged, and it goes on by itself."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from artery.pipeline import storage
from artery.pipeline.storage import GROUPS
from tests.bus.test_sqlite_trouble import mounted
from tests.pipeline.conftest import House, Log
from tests.pipeline.test_bars import trade
from tests.pipeline.test_storage import Stored, encoded, rows_of
from tests.servers import until

DAY = 1_893_456_000_000  # 2030-01-01, which no other test uses


def fill_up(folder: Path) -> Path:
    """A file that takes all that is left of the disk."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4_096)
        except OSError:
            return path


@contextmanager
def full(folder: Path, aside: Path) -> Iterator[Path]:
    """A disk for this folder with no room until the file that it gives is removed; what is written there stays."""
    folder.mkdir(parents=True)
    with mounted(folder, "size=256k") as small:
        ballast = folder
        if small:
            ballast = fill_up(folder)
        else:  # who may not mount a disk has a file in the folder's place
            folder.rmdir()
            folder.touch()
        yield ballast
        shutil.copytree(folder, aside)
    shutil.copytree(aside, folder, dirs_exist_ok=True)


def test_a_full_disk_acknowledges_nothing_and_the_batch_is_written_once_there_is_room(
    spark: House, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "TRY_AGAIN_S", 0.2)
    store = Stored(spark, log)
    log.append("trade", *encoded(*[trade(seq, DAY + seq, coin="FULL") for seq in range(1, 50)]))
    day = spark.settings.folder / "lake" / "warehouse" / "market" / "trades" / "data" / "ts_day=2030-01-01"
    with full(day, tmp_path / "aside") as ballast:
        writing = threading.Thread(target=store.run)
        writing.start()
        log.do(lambda: until(lambda: bool(store.query.progress.error)))
        assert "\n" not in store.query.progress.error
        assert rows_of(spark, "trades", "SIM:FULL") == []
        assert log.do(lambda: log.bus.group("trade", GROUPS["trade"])).last == "0"
        ballast.unlink()
        writing.join(60)
        assert store.query.progress.error == ""
    assert sorted(int(row["tid"]) for row in rows_of(spark, "trades", "SIM:FULL")) == list(range(1, 50))
