"""The supervisor over real processes: what dies or hangs comes back, and nothing outlives it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

WAIT_S = 30.0


class Started:
    """A supervisor of made-up services, in a process of its own."""

    def __init__(self, folder: Path, services: list[dict[str, object]]) -> None:
        self.folder = folder
        self._said = folder / "said"
        with self._said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.app.supervise", str(folder), json.dumps(services)],
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return self._said.read_text()

    def pids(self, name: str) -> list[int]:
        path = self.folder / f"{name}.pids"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, self.said()
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def supervised(folder: Path, *services: dict[str, object]) -> Iterator[Started]:
    started = Started(folder, list(services))
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(WAIT_S)


def one(code: str, name: str = "one", **more: object) -> dict[str, object]:
    return {"name": name, "code": code, **more}


def test_a_dead_service_is_started_again_and_it_is_said(tmp_path: Path) -> None:
    with supervised(tmp_path, one("live()"), one("live()", "other")) as started:
        started.until(lambda: started.pids("one") and started.pids("other"))
        os.kill(started.pids("one")[0], signal.SIGKILL)
        started.until(lambda: len(started.pids("one")) == 2)
        started.until(lambda: "one was ended by SIGKILL; it starts again in 0." in started.said())
        assert len(started.pids("other")) == 1


def test_a_stuck_service_is_ended_and_started_again(tmp_path: Path) -> None:
    with supervised(tmp_path, one("live()", silence_s=2.0)) as started:
        started.until((tmp_path / "run" / "one.beat").exists)
        os.kill(started.pids("one")[0], signal.SIGSTOP)
        started.until(lambda: len(started.pids("one")) >= 2)
        assert "gave no sign of life for 2 s and was ended" in started.said()
        assert not is_running(started.pids("one")[0])


def test_a_stop_is_clean_and_leaves_no_process(tmp_path: Path) -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: (print('closed properly', flush=True), sys.exit(0)))\nlive()"
    with supervised(tmp_path, one(code), one(code, "other")) as started:
        started.until(lambda: (tmp_path / "run" / "one.beat").exists() and (tmp_path / "run" / "other.beat").exists())
        started.process.send_signal(signal.SIGINT)
        assert started.process.wait(WAIT_S) == 0
        assert not any(is_running(pid) for pid in started.pids("one") + started.pids("other"))
        assert (tmp_path / "logs" / "one.log").read_text() == "closed properly\n"


def test_a_service_that_will_not_stop_is_ended_within_the_limit(tmp_path: Path) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nlive()"
    with supervised(tmp_path, one(code)) as started:
        started.until((tmp_path / "run" / "one.beat").exists)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(WAIT_S) == 0
        assert not is_running(started.pids("one")[0])
        assert "one did not stop within 3 s and was ended" in started.said()


def test_what_a_service_has_started_ends_with_it(tmp_path: Path) -> None:
    code = (
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "(folder / 'grandchild').write_text(str(child.pid))\nlive()"
    )
    with supervised(tmp_path, one(code)) as started:
        started.until((tmp_path / "run" / "one.beat").exists)
        grandchild = int((tmp_path / "grandchild").read_text())
        assert is_running(grandchild)
        os.kill(started.pids("one")[0], signal.SIGKILL)
        started.until(lambda: len(started.pids("one")) == 2)
        assert not is_running(grandchild)


def test_services_end_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, one("live()"), one("live()", "other")) as started:
        started.until(lambda: started.pids("one") and started.pids("other"))
        started.process.kill()
        started.process.wait(WAIT_S)
        started.until(lambda: not any(is_running(pid) for pid in started.pids("one") + started.pids("other")))


def test_a_service_that_never_becomes_ready_ends_the_start_with_its_last_words(tmp_path: Path) -> None:
    with supervised(tmp_path, one("sys.exit('artery: the shelf is empty')"), one("live()", "other")) as started:
        assert started.process.wait(WAIT_S) == 1
        last = started.said().splitlines()[-1]
        assert last == (
            "cannot start: one failed 3 times before it was ready (it ended with code 1); "
            "its last words: the shelf is empty"
        )
        assert not any(is_running(pid) for pid in started.pids("other"))


@pytest.mark.parametrize("level", ["warning", "error"])
def test_people_hear_warnings_and_the_log_has_everything(tmp_path: Path, level: str) -> None:
    code = f"print('12:00:00 [info     ] quiet', flush=True)\nprint('12:00:00 [{level}] loud', flush=True)\nlive()"
    with supervised(tmp_path, one(code)) as started:
        started.until(lambda: "loud" in started.said())
        assert f"one: 12:00:00 [{level}] loud" in started.said()
        assert "quiet" not in started.said()
        assert (tmp_path / "logs" / "one.log").read_text().splitlines()[0] == "12:00:00 [info     ] quiet"
