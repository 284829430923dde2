"""What running services leave in the data folder."""

import os
import subprocess
import sys
from pathlib import Path

from artery.app.notes import Beat, Note, last_beat, read_note, remove_notes, write_note


def ended_pid() -> int:
    """The id of a process that has been and gone."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    return done.pid


def test_a_note_is_read_while_its_process_lives(tmp_path: Path) -> None:
    note = Note("serve", os.getpid(), "http://127.0.0.1:1")
    write_note(tmp_path, note)
    assert read_note(tmp_path, "serve") == note
    assert read_note(tmp_path, "sim") is None


def test_the_note_of_a_dead_process_is_not_believed(tmp_path: Path) -> None:
    write_note(tmp_path, Note("serve", ended_pid(), "http://127.0.0.1:1"))
    assert read_note(tmp_path, "serve") is None


def test_a_torn_note_is_not_believed(tmp_path: Path) -> None:
    write_note(tmp_path, Note("serve", os.getpid()))
    (tmp_path / "run" / "serve.json").write_text('{"service":"ser')
    assert read_note(tmp_path, "serve") is None


def test_each_beat_changes_the_sign_and_only_for_its_own_process(tmp_path: Path) -> None:
    beat = Beat(tmp_path, "serve")
    assert last_beat(tmp_path, "serve", os.getpid()) is None
    beat()
    first = last_beat(tmp_path, "serve", os.getpid())
    assert first is not None
    os.utime(tmp_path / "run" / "serve.beat", ns=(0, 0))
    beat()
    assert last_beat(tmp_path, "serve", os.getpid()) not in (None, 0)
    assert last_beat(tmp_path, "serve", os.getpid() + 1) is None


def test_what_an_earlier_run_left_is_forgotten(tmp_path: Path) -> None:
    write_note(tmp_path, Note("serve", os.getpid()))
    Beat(tmp_path, "serve")()
    remove_notes(tmp_path)
    assert list((tmp_path / "run").iterdir()) == []
