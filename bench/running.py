"""A whole Artery in a folder of its own, started as a user starts it."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psutil

from artery.client import Artery
from artery.settings import RELAY_PORTS
from tests.servers import free_port

START_S = 180.0


class Running:
    """The started processes, the gateway's address and its key."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int, sim_port: int) -> None:
        self.process = process
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.sim_url = f"ws://127.0.0.1:{sim_port}/ws"
        self.started = time.monotonic()

    @property
    def key(self) -> str:
        return (self.folder / "sim" / "key").read_text().strip()

    def processes(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def memory_mib(self) -> float:
        """Proportional set size of all of them; one that ends while it is looked at has none."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / 2**20

    def cpu_s(self) -> float:
        """Seconds of processor time so far, of ended children too."""
        total = 0.0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])  # own user and system time, then that of children that ended
        return total

    async def until_open(self) -> None:
        """Wait until the gateway answers with the local key."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"artery up ended with {self.process.returncode}; see {self.folder}")
            try:
                async with Artery(self.url, self.key) as artery:
                    await artery.markets()
                return
            except Exception:  # not up yet: ask again until the time is over
                await asyncio.sleep(0.05)
        raise SystemExit("the gateway did not open in time")


@contextmanager
def up(folder: Path, **settings: str) -> Iterator[Running]:
    """`artery up` on free ports, stopped at the end."""
    port, sim_port = free_port(), free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ART_")}
    environment |= {
        "ART_DATA_DIR": str(folder),
        "ART_GATEWAY_PORT": str(port),
        "ART_SIM_PORT": str(sim_port),
        **{f"ART_RELAY_{name.upper()}": "0" for name in RELAY_PORTS},
    } | settings
    with (folder / "console.log").open("ab") as console:
        process = subprocess.Popen(
            [sys.executable, "-m", "artery", "up"], env=environment, stdout=console, stderr=console
        )
        try:
            yield Running(process, folder, port, sim_port)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@asynccontextmanager
async def opened(**settings: str) -> AsyncIterator[Running]:
    """A fresh folder, started and answering."""
    with tempfile.TemporaryDirectory(prefix="artery-bench-", ignore_cleanup_errors=True) as name:
        with up(Path(name), **settings) as running:
            await running.until_open()
            yield running
