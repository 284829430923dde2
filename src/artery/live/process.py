"""Which process this is, and whether another one of this machine is still alive."""

import os
from pathlib import Path

import msgspec

_PROC = Path("/proc")


class Process(msgspec.Struct, frozen=True):
    """A process that no other can be taken for: numbers are used again, but not with the same start.

    `host` names the running machine and the space that numbers are counted in (a container has its own); where
    either cannot be known, `started` is empty and nobody can say that the process is dead.
    """

    pid: int
    started: str
    host: str

    def is_dead(self) -> bool:
        """Whether it is certain that this process has ended."""
        if not self.started or self.host != _host():
            return False
        return _started(self.pid) != self.started


def this_process() -> Process:
    return Process(os.getpid(), _started(os.getpid()), _host())


def _started(pid: int) -> str:
    """The kernel's start time of a process, in ticks since boot; empty if there is none."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    state, *rest = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return "" if state in "ZX" else rest[18]


def _host() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""
