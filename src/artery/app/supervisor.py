"""Keeps services running: a dead or stuck one is started again, and all of them stop together."""

import os
import random
import selectors
import signal
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from artery.app.output import Lines, LogFile, Loud
from artery.app.processes import Process, how_it_ended
from artery.app.restarts import Policy, Watch
from artery.errors import CannotStart

TICK_S = 0.1
STOP_S = 8.0
EARLY_FAILURES_MAX = 3
"""A service that ends so often before it ever lived makes the start fail, rather than go on for ever."""


@dataclass(frozen=True, slots=True)
class Service:
    """What is started, and how one sees that it lives. The functions are asked anew at each start."""

    name: str
    command: Sequence[str]
    environment: Callable[[], Mapping[str, str]]
    sign: Callable[[int], Hashable]
    """A value that changes while the process with this id lives; None before its first sign."""
    may_start: Callable[[], bool] = lambda: True
    start_s: float = 60.0
    silence_s: float = 30.0
    niceness: int = 0


@dataclass(slots=True)
class _Child:
    """One service and what became of it."""

    service: Service
    log: LogFile
    loud: Loud
    process: Process | None = None
    lines: Lines = field(default_factory=Lines)
    watch: Watch = field(default_factory=lambda: Watch(0.0, 0.0, 0.0))
    began: float = 0.0
    start_at: float = 0.0
    failures: int = 0
    lived: bool = False
    last_line: str = ""


class Supervisor:
    """Runs services until it is told to stop. `say` gets who speaks and one line."""

    def __init__(
        self,
        services: Sequence[Service],
        logs: Path,
        say: Callable[[str, str], None],
        *,
        policy: Policy = Policy(),  # noqa: B008 a frozen value
        everything: bool = False,
        stop_s: float = STOP_S,
    ) -> None:
        self._say, self._policy, self._stop_s = say, policy, stop_s
        self._children = [
            _Child(one, LogFile(logs / f"{one.name}.log"), Loud(_prefixed(say, one.name), everything))
            for one in services
        ]
        self._selector = selectors.DefaultSelector()
        self._asked = 0

    def stop(self) -> None:
        """Begin to stop; a second time ends everything at once."""
        self._asked += 1

    def pid(self, name: str) -> int:
        """The process of a service, or 0 while it has none."""
        return next((one.process.pid for one in self._children if one.service.name == name and one.process), 0)

    def run(self, each: Callable[[], None] = lambda: None) -> None:
        """Keep everything running until `stop`; `each` is called about ten times a second."""
        with _signals(self.stop):
            try:
                while not self._asked:
                    self._keep(time.monotonic())
                    each()
                    self._listen(TICK_S)
            finally:
                self._end()

    def _keep(self, now: float) -> None:
        for child in self._children:
            if child.process is None:
                if now >= child.start_at and child.service.may_start():
                    self._start(child, now)
            elif (code := child.process.code()) is not None:
                self._again(child, how_it_ended(code), now)
            elif child.watch.is_stuck(child.service.sign(child.process.pid), now):
                silent_s = child.watch.limit_s()
                child.process.kill()
                self._again(child, f"gave no sign of life for {silent_s:.0f} s and was ended", now)
            elif child.watch.alive:
                child.lived = True

    def _start(self, child: _Child, now: float) -> None:
        service = child.service
        child.process = Process(service.command, service.environment(), service.niceness)
        child.watch = Watch(service.start_s, service.silence_s, now)
        child.began, child.lines = now, Lines()
        self._selector.register(child.process.output, selectors.EVENT_READ, child)

    def _again(self, child: _Child, how: str, now: float) -> None:
        """Clear away what is left of a process that ended, and set the time of the next start."""
        self._close(child)
        child.failures = self._policy.failures(child.failures, now - child.began)
        if not child.lived and child.failures >= EARLY_FAILURES_MAX:
            words = child.last_line.removeprefix("artery: ") or "none"
            times = f"{child.service.name} failed {child.failures} times before it was ready"
            raise CannotStart(f"{times} (it {how}); its last words: {words}")
        pause_s = self._policy.pause_s(child.failures, random.random())
        child.start_at = now + pause_s
        self._say("artery", f"{child.service.name} {how}; it starts again in {pause_s:.1f} s")

    def _close(self, child: _Child) -> None:
        if child.process is None:
            return
        child.process.kill()
        self._read(child)
        self._selector.unregister(child.process.output)
        child.process.close()
        child.process = None

    def _listen(self, wait_s: float) -> None:
        if not self._selector.get_map():
            time.sleep(wait_s)
            return
        began = time.monotonic()
        ready = self._selector.select(wait_s)
        for key, _ in ready:
            self._read(key.data)
        if ready:  # an output at its end is always ready: never spin
            time.sleep(max(0.0, min(wait_s, 0.02) - (time.monotonic() - began)))

    def _read(self, child: _Child) -> None:
        """Take what a child has said; at most so much at once that nobody else waits."""
        now = time.monotonic()
        for _ in range(16):
            try:
                data = os.read(child.process.output, 65_536) if child.process else b""
            except BlockingIOError:
                return
            if not data:
                return
            for line in child.lines.take(data):
                child.log.write(line)
                if not self._asked:  # while all stop, each may find the others gone: not worth a word
                    child.loud.take(line, now)
                child.last_line = line or child.last_line

    def _end(self) -> None:
        """Stop every service: first with a word, then, when the time is over, without."""
        living = [one for one in self._children if one.process]
        for child in living:
            assert child.process
            child.process.terminate()
        deadline = time.monotonic() + self._stop_s
        asked = self._asked
        while any(one.process and one.process.is_there() for one in living):
            if time.monotonic() > deadline or self._asked > asked:
                break
            self._listen(TICK_S)
        for child in living:
            self._tell_if_killed(child)
            self._close(child)
        for child in self._children:
            child.log.close()
        self._selector.close()

    def _tell_if_killed(self, child: _Child) -> None:
        if child.process and child.process.code() is None:
            self._say("artery", f"{child.service.name} did not stop within {self._stop_s:.0f} s and was ended")


def _prefixed(say: Callable[[str, str], None], name: str) -> Callable[[str], None]:
    return lambda line: say(name, line)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM ask for a stop."""

    def handle(_signum: int, _frame: FrameType | None) -> None:
        stop()

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup it goes on without its terminal
        wanted.append(signal.SIGHUP)
    before = {one: signal.signal(one, handle) for one in wanted}
    try:
        yield
    finally:
        for one, previous in before.items():
            signal.signal(one, previous)
