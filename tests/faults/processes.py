"""Real processes of a scenario: started, killed, frozen and ended by pid."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tests.faults.records import acked_count, rests, seen_ids
from tests.servers import stop

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0


async def until(condition: Callable[[], bool], what: str, within_s: float = WAIT_S, every_s: float = 0.02) -> float:
    """Wait for what must happen; how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < within_s, f"{what}: not within {within_s:.0f} s"
        await asyncio.sleep(every_s)
    return loop.time() - began


class Child:
    """One process; what it says on its standard error is kept beside its record."""

    def __init__(self, command: list[str], log: Path, environ: dict[str, str] | None = None) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ART_", "FAULT_"))}
        self.log = log
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=ROOT, env=own | (environ or {}), stdout=said, stderr=said
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)

    def freeze(self) -> None:
        stop(self._process)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def nudge(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.resume()

    @asynccontextmanager
    async def resting(self, file: str) -> AsyncIterator[None]:
        """A writer with nothing under way: all that it has sent is in its file, with what became of it."""
        before = rests(file)
        self._process.send_signal(signal.SIGUSR2)
        await until(lambda: rests(file) > before, f"{self.log.name} rests")
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGUSR2)

    async def ended(self, within_s: float = WAIT_S) -> int:
        """Wait until it has ended by itself; its code."""
        await until(lambda: not self.alive, f"{self.log.name} ends", within_s)
        return self._process.returncode

    async def stop(self) -> None:
        """End it cleanly."""
        if self.alive:
            self._process.terminate()
        code = await self.ended()
        assert code == 0, f"ended with {code}: {self.log.read_text()[-2_000:]}"

    def end(self) -> None:
        """For the end of a test, whatever happened in it."""
        if self.alive:
            self.resume()
            self.kill()


class Stage:
    """The processes of one scenario, and the files in which they record what they do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: list[Child] = []

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.jsonl")

    def start(self, module: str, job: msgspec.Struct | str, name: str, environ: dict[str, str] | None = None) -> Child:
        argument = job if isinstance(job, str) else msgspec.json.encode(job).decode()
        return self.run([f"tests.faults.{module}", argument], name, environ)

    def run(self, command: list[str], name: str, environ: dict[str, str] | None = None) -> Child:
        """A module with its arguments."""
        child = Child(command, self.folder / f"{name}.log", environ)
        self._children.append(child)
        return child

    def said(self) -> str:
        """Everything that the processes wrote on their standard error."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    async def acked(self, name: str, more: int) -> None:
        """Until a writer has heard of so many more events."""
        before = acked_count(self.file(name))
        await until(lambda: acked_count(self.file(name)) >= before + more, f"{more} more events of {name}")

    async def sees(self, ids: set[str], *names: str) -> None:
        """Until these readers together have seen all of these."""
        files = [self.file(name) for name in names]
        with contextlib.suppress(AssertionError):  # what is missing is the checker's to say
            await until(lambda: ids <= seen_ids(files), "everything acknowledged is seen", 30.0, 0.1)

    def end(self) -> None:
        for child in self._children:
            child.end()


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """Whatever happens, no process is left behind."""
    made = Stage(folder)
    try:
        yield made
    finally:
        made.end()
