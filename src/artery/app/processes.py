"""Processes that cannot outlive whoever started them."""

import ctypes
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "ARTERY_STARTED_AS"
"""A variable that a process and everything it starts carries, so that none of them is lost sight of."""

REAP_S = 5.0
_PR_SET_PDEATHSIG = 1
_PROC = Path("/proc")


class Process:
    """One started command, with everything that it starts in turn."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], niceness: int = 0) -> None:
        self._mark = uuid.uuid4().hex
        self._popen = subprocess.Popen(
            command,
            env={**environment, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the supervisor alone, which stops the others in order
            preexec_fn=_in_the_child(niceness),  # noqa: PLW1509 the supervisor has one thread
        )
        assert self._popen.stdout is not None
        self.output = self._popen.stdout.fileno()
        os.set_blocking(self.output, False)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def code(self) -> int | None:
        """How it ended: an exit code, minus the number of a signal, or None while it runs."""
        return self._popen.poll()

    def terminate(self) -> None:
        """Ask it to stop; one that was suspended is woken to hear it."""
        self._popen.terminate()
        self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it and everything that it started."""
        if self._popen.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        for pid in self.family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def is_there(self) -> bool:
        """Whether it, or anything that it started, still runs."""
        return self.code() is None or bool(self.family())

    def family(self) -> list[int]:
        """What still runs of it: itself and whatever it started."""
        return carrying(f"{MARK}={self._mark}")

    def close(self) -> None:
        """Let go of a process that has been ended."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(REAP_S)
        if self._popen.stdout:
            self._popen.stdout.close()


def carrying(text: str) -> list[int]:
    """The processes of this user whose environment holds this text (none where the system does not tell)."""
    wanted, found = text.encode(), []
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _in_the_child(niceness: int) -> Callable[[], None]:
    """What a child does before its command: it takes its priority, and asks to end with its parent."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    parent = os.getpid()

    def prepare() -> None:
        if niceness:
            os.nice(niceness)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return prepare
