"""Real servers for tests, each on a free loopback port in a folder of its own, started and ended by pid."""

import asyncio
import contextlib
import itertools
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

WAIT_S = 30.0
TRIES = 5
PORTS = (20_000, 32_000)
_DICE = random.SystemRandom()  # several test runs at once must not take the same


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen; fail if it has not after a long time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.005)


def free_port() -> int:
    """A port that is free, and not one of those that the kernel gives to any connection that is opened: whoever is to
    listen there can still do so a moment later."""
    while True:
        port = _DICE.randrange(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def stop(process: subprocess.Popen[bytes]) -> None:
    """Freeze a process, and wait until each of its threads stands still: until then some may still answer."""
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + WAIT_S
    while any(_runs(task) for task in Path(f"/proc/{process.pid}/task").iterdir()):
        assert time.monotonic() < deadline, "a process does not stand still"
        time.sleep(0.001)


def _runs(task: Path) -> bool:
    """Whether a thread is neither stopped nor ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] not in "TZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Server:
    """A server in a process and a folder of its own; it can be killed, frozen, emptied and ended."""

    kept: str
    """The folder, within its own, of what it keeps."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder or Path(tempfile.gettempdir()) / f"artery-server-{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def kill(self) -> None:
        """As a crash would: without a word, and waited for."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(WAIT_S)

    def forget(self) -> None:
        """Remove what it kept, so that it starts empty."""
        assert self._process is None
        shutil.rmtree(self._folder / self.kept, ignore_errors=True)

    def end(self) -> None:
        """Stop it for good, and leave nothing behind."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It lives, and its port is open, but it does nothing."""
        assert self._process is not None
        stop(self._process)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


class RedisServer(Server):
    """A `redis-server` with its append-only file on; it can be killed, frozen, restarted and emptied."""

    kept = "appendonlydir"

    def __init__(self, folder: Path | None = None, *options: str) -> None:
        super().__init__(folder)
        self._options = options
        self._databases = itertools.count()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def new_url(self) -> str:
        """A database that nothing was written to; the first one asked for starts the server."""
        if self._process is None:
            self.start()
        return f"redis://127.0.0.1:{self.port}/{next(self._databases)}"

    def start(self) -> "RedisServer":
        """Start it where it was before, or on a free port, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fixed = self.port
        for _ in range(TRIES):  # a free port may be taken by another before the server has it
            self.port = fixed or free_port()
            self._process = self._spawn()
            if self._answers():
                return self
        raise AssertionError(f"redis-server did not start: {(self._folder / 'log').read_text()[-500:]}")

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "logfile": str(self._folder / "log"),
            "databases": "5000",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
        return subprocess.Popen(["redis-server", *arguments, *self._options])

    def _answers(self) -> bool:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                if probe.recv(64).startswith((b"+PONG", b"-NOAUTH")):
                    return self._process.poll() is None
            time.sleep(0.01)
        self.kill()
        return False
