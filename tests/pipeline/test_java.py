"""Which Java is taken, and what is said when there is none."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from artery.errors import CannotStart
from artery.pipeline import java, session
from artery.pipeline.session import classpath, configuration, jvm_options
from artery.settings import Settings


def install(places: Path, name: str, release: str) -> Path:
    home = places / name
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (home / "release").write_text(release)
    return program


def test_17_is_taken_before_21_before_the_newest(tmp_path: Path) -> None:
    newest = install(tmp_path, "a", 'JAVA_VERSION="25.0.1"\n')
    assert java.find_java({}, [str(tmp_path)]) == newest
    preferred = install(tmp_path, "b", 'JAVA_VERSION="21.0.2"\n')
    assert java.find_java({}, [str(tmp_path)]) == preferred
    best = install(tmp_path, "c", 'IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    assert java.find_java({"JAVA_HOME": str(newest.parent.parent)}, [str(tmp_path)]) == best


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    program = install(tmp_path, "only", 'JAVA_VERSION="17"\n')
    assert java.find_java({"PATH": str(program.parent)}, []) == program


def test_a_missing_or_old_java_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="finds none: install Java 17"):
        java.find_java({}, [str(tmp_path)])
    install(tmp_path, "old", 'JAVA_VERSION="1.8.0_302"\n')
    install(tmp_path, "broken", "nothing useful")
    with pytest.raises(CannotStart, match="finds only 8: install Java 17"):
        java.find_java({}, [str(tmp_path)])


def test_a_java_that_does_not_start_is_said_with_its_last_words(tmp_path: Path) -> None:
    program = install(tmp_path, "mute", 'JAVA_VERSION="17"\n')
    program.write_text("#!/bin/sh\necho 'no room for the heap'\nexit 1\n")
    starting = java.start(program, [], [], tmp_path / "java.log")
    with pytest.raises(CannotStart, match="no room for the heap"):
        java.connected(starting)
    java.stop(starting.process)


def test_missing_jars_are_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="run scripts/jars"):
        classpath(Settings().with_(pipeline={"jars": str(tmp_path)}))


def test_what_suits_a_small_machine_is_not_asked_of_a_cluster() -> None:
    here, there = Settings(), Settings().with_(pipeline={"master": "spark://one:7077", "heap_mb": 4_096})
    assert configuration(here)["spark.sql.codegen.wholeStage"] == "false"
    assert "spark.sql.codegen.wholeStage" not in configuration(there)
    assert "-Xmx4096m" in jvm_options(there)


def test_a_driver_removes_the_scratch_of_dead_drivers_of_this_machine_and_no_other(tmp_path: Path) -> None:
    host, dead = socket.gethostname(), subprocess.Popen(["true"])
    dead.wait()
    gone, kept = [f"{host}-{dead.pid}", f"{host}-{os.getpid()}"], [f"{host}-{os.getppid()}", "elsewhere-1"]
    for name in (*gone, *kept):
        (tmp_path / name).mkdir()
    session._sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
