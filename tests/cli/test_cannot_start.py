"""A start that cannot succeed: one sentence that says what to do, a code other than 0, nothing half-started."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artery.app.preflight import only_one
from tests.cli.command import Done, artery, environment, left_behind


def refused(folder: Path, **settings: str) -> str:
    """The sentence with which `artery up` refuses to start here."""
    done: Done = artery("up", "--json", folder=folder, **settings)
    assert done.code == 1
    assert done.out == ""
    assert left_behind(folder) == []
    return done.sentence


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        yield int(other.getsockname()[1])


def test_a_taken_port_of_the_gateway(tmp_path: Path) -> None:
    with taken_port() as port:
        sentence = refused(tmp_path, ART_GATEWAY_PORT=str(port))
    assert sentence == (
        f"port {port} of 127.0.0.1, for the gateway, is taken; stop what uses it, or set ART_GATEWAY_PORT to another"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_of_the_simulated_venue(tmp_path: Path) -> None:
    with taken_port() as port:
        sentence = refused(tmp_path, ART_SIM_PORT=str(port))
    assert sentence.startswith(f"port {port} of 127.0.0.1, for the simulated venue, is taken")


def test_a_number_that_is_no_port(tmp_path: Path) -> None:
    assert "is not a port" in refused(tmp_path, ART_GATEWAY_PORT="99999")


def test_java_is_missing(tmp_path: Path) -> None:
    sentence = refused_without_java(tmp_path / "data", JAVA_HOME="")
    assert sentence.startswith("Spark needs Java and finds none: install Java 17")
    assert not (tmp_path / "data").exists()


def test_java_is_not_where_it_is_said_to_be(tmp_path: Path) -> None:
    sentence = refused(tmp_path / "data", JAVA_HOME=str(tmp_path / "nowhere"))
    assert sentence.startswith(f"JAVA_HOME is {tmp_path}/nowhere, and there is no Java there: set it right or unset it")
    assert not (tmp_path / "data").exists()


def test_java_is_too_old(tmp_path: Path) -> None:
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    sentence = refused_without_java(tmp_path / "data", JAVA_HOME=str(tmp_path / "old"))
    assert sentence.startswith("Spark needs Java 17 to 25 and finds only 11: install Java 17")


def test_a_redis_that_does_not_answer_is_said_before_anything_starts(tmp_path: Path) -> None:
    for setting in ("ART_BUS_URL", "ART_LIVE_URL", "ART_STORE_URL"):
        sentence = refused(tmp_path / "data", **{setting: "redis://127.0.0.1:1/0"})
        assert sentence.startswith("Redis at 127.0.0.1:1 cannot be reached")
        assert sentence.endswith(f"set {setting}")
    assert not (tmp_path / "data").exists()


def test_a_kafka_that_does_not_answer_is_said_before_anything_starts(tmp_path: Path) -> None:
    sentence = refused(tmp_path / "data", ART_BUS_URL="kafka://127.0.0.1:1")
    assert sentence.startswith("Kafka at 127.0.0.1:1 cannot be reached")
    assert sentence.endswith("set ART_BUS_URL")
    assert not (tmp_path / "data").exists()


def test_the_data_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "cannot be written" in refused(tmp_path / "file")


def test_another_artery_runs_on_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    with only_one(folder):
        sentence = refused(tmp_path)
    assert sentence == f"Artery already runs on {folder}; `artery open` shows its page, Ctrl-C in its terminal stops it"


def refused_on(folder: Path, options: str, first: str = "true") -> str:
    """As `refused`, with a small file system in memory on the folder, after `first` was run there.

    It is mounted in a namespace that only this command sees, and that goes away with it.
    """
    folder.mkdir()
    return refused_after(f"mount -t tmpfs -o {options} tmpfs {folder}; cd {folder}; {first}", folder)


def refused_without_java(folder: Path, **settings: str) -> str:
    """As `refused`, where nothing is in the places that Java is kept in."""
    hide = "for place in /usr/lib/jvm /opt/java; do if [ -d $place ]; then mount -t tmpfs tmpfs $place; fi; done"
    return refused_after(hide, folder, **settings)


def refused_after(first: str, folder: Path, **settings: str) -> str:
    """As `refused`, after `first` was done in a namespace of mounts that goes away with the command."""
    words = shlex.join([sys.executable, "-m", "artery", "up", "--json"])
    done = subprocess.run(
        ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-euc",
         f"{first}; exec {words}"],
        env=environment(folder, **settings), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert left_behind(folder) == []
    return Done(done.returncode, done.stdout, done.stderr).sentence


def test_a_full_disk(tmp_path: Path) -> None:
    fill = "head -c 1048576 /dev/zero > full"
    sentence = refused_on(tmp_path / "small", "size=1m", fill)
    assert sentence.startswith(f"the data folder {tmp_path}/small/sim is on a full disk; make room there")


def test_a_disk_that_is_too_small(tmp_path: Path) -> None:
    sentence = refused_on(tmp_path / "small", "size=8m")
    assert "has less than 64 MiB of free space; make room there, or set ART_DATA_DIR" in sentence


def test_a_read_only_mount(tmp_path: Path) -> None:
    sentence = refused_on(tmp_path / "fixed", "size=1m,ro")
    assert sentence.startswith(f"the data folder {tmp_path}/fixed/sim is on a read-only mount")


def test_a_service_that_is_stopped_ends_cleanly(tmp_path: Path) -> None:
    note = tmp_path / "sim" / "run" / "sim.json"
    with (tmp_path / "said").open("wb") as said:
        sim = subprocess.Popen(
            [sys.executable, "-m", "artery", "run", "sim"], env=environment(tmp_path), stdout=said, stderr=said
        )
        try:
            end = time.monotonic() + 30
            while not note.exists():
                assert sim.poll() is None, (tmp_path / "said").read_text()
                assert time.monotonic() < end
                time.sleep(0.02)
            sim.send_signal(signal.SIGTERM)
            assert sim.wait(30) == 0
        finally:
            sim.kill()
            sim.wait(30)
    assert "Traceback" not in (tmp_path / "said").read_text()
