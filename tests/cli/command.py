"""Runs the real command line, as a person would."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from artery.app.processes import carrying
from artery.settings import RELAY_PORTS

WAIT_S = 60.0


class Done:
    """A command that has ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def sentence(self) -> str:
        """The one line of an error; anything else on standard error makes the test fail."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("artery: "), self.err
        return lines[0].removeprefix("artery: ")


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """This environment with a data folder of its own, and with free ports unless others are asked for."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("ART_")}
    relay = {f"ART_RELAY_{name.upper()}": "0" for name in RELAY_PORTS}
    return {**others, "ART_DATA_DIR": str(folder), "ART_GATEWAY_PORT": "0", "ART_SIM_PORT": "0", **relay, **settings}


def artery(*words: str, folder: Path, **settings: str) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "artery", *words],
        env=environment(folder, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def watched(*words: str, folder: Path, **settings: str) -> str:
    """What a person sees on standard error, at a terminal, while a command runs to its end."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "artery", *words],
        env=environment(folder, **settings) | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # how a terminal ends when nobody writes to it any more
            while part := os.read(ours, 4_096):
                said += part
        os.close(ours)
        assert process.wait(WAIT_S) == 0, said
    return said.decode()


def left_behind(folder: Path) -> list[int]:
    """Processes that were started for this folder and still run."""
    return carrying(f"ART_DATA_DIR={folder}")
