"""The README's commands exist: every `make` target, every `artery` command and every option that it shows."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.house.tree import ROOT


def commands() -> list[str]:
    """Every line of the README's shell blocks, without what follows a `#`."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`(artery [a-z][^`]*|make [a-z]+)`", (ROOT / "README.md").read_text())
    return sorted({line for line in [*lines, *inline] if line})


def test_the_readme_shows_the_two_commands() -> None:
    assert {"make run", "make test"} <= set(commands())


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("make ")])
def test_a_make_target_of_the_readme_exists(command: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", *shlex.split(command)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("artery ")])
def test_a_command_of_the_readme_exists_with_its_options(command: str) -> None:
    _, name, *rest = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", "artery", name, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for option in (word for word in rest if word.startswith("--")):
        assert option in done.stdout


def test_every_other_line_is_a_command_that_is_known() -> None:
    assert [line for line in commands() if not line.startswith(("make ", "artery "))] == []


def test_make_lists_every_target_with_a_word_about_it() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    for target in ("run", "test", "check", "bench", "selftest", "screenshots"):
        assert re.search(rf"make {target} +\S", listed)
