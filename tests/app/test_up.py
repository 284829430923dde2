"""`artery up` as a whole: it says where to look, commands find it, and nothing is left when it ends."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.command import artery, environment, left_behind

WAIT_S = 120.0


class Up:
    """A started `artery up --json`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "artery", "up", "--json"], env=environment(folder), stdout=out, stderr=err
            )

    def said(self) -> str:
        return self._out.read_text() + self._err.read_text()

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def ready(self) -> dict[str, str]:
        self.until(lambda: self._out.read_text().endswith("\n") or self.process.poll() is not None)
        assert self._out.read_text(), self.said()
        found: dict[str, str] = json.loads(self._out.read_text().splitlines()[0])
        return found


@contextmanager
def started(folder: Path) -> Iterator[Up]:
    up = Up(folder)
    try:
        yield up
    finally:
        up.process.kill()
        up.process.wait(WAIT_S)
        up.until(lambda: not left_behind(folder))


def test_commands_find_it_and_a_clean_stop_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path) as up:
        told = up.ready()
        assert told["link"].startswith(told["url"] + "/#start=")
        assert told["folder"] == str(tmp_path / "sim")
        assert len(left_behind(tmp_path)) >= 4, "up, sim, serve and pipeline"

        opened = json.loads(artery("open", "--json", folder=tmp_path).out)
        assert opened["url"] == told["url"]
        assert opened["link"] != told["link"]
        again = artery("up", folder=tmp_path)
        assert again.code == 1
        assert f"Artery already runs on {tmp_path / 'sim'}" in again.err
        assert artery("doctor", folder=tmp_path).code == 0

        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(WAIT_S) == 0, up.said()
        assert left_behind(tmp_path) == []
        assert "Traceback" not in up.said()


def test_nothing_outlives_an_artery_that_was_killed(tmp_path: Path) -> None:
    with started(tmp_path) as up:
        up.ready()
        up.process.kill()
        assert up.process.wait(WAIT_S) == -signal.SIGKILL
        up.until(lambda: not left_behind(tmp_path))
    assert artery("open", folder=tmp_path).sentence.startswith("no Artery runs on")
