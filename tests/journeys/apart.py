"""Artery in separate processes on one Redis server, each started as a person starts it and ended by its pid."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import redis

from bench.running import free_port
from tests.cli.command import environment
from tests.servers import RedisServer

STOP_S = 30.0
LOCK_TTL_S = 8.0


class Service:
    """One `artery run NAME`; its output goes to a file of its own."""

    def __init__(self, name: str, folder: Path, environ: dict[str, str]) -> None:
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "artery", "run", name], env=environ, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def runs(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        """As a crash would, and with everything that it started."""
        family = psutil.Process(self.pid).children(recursive=True) if self.runs() else []
        self._popen.kill()
        self._popen.wait(STOP_S)
        psutil.wait_procs(family, STOP_S)

    def stop(self) -> int:
        """Ask it to stop; how it ended."""
        self._popen.send_signal(signal.SIGTERM)
        return self._popen.wait(STOP_S)


class Apart:
    """The services of one data folder, and the server they meet on."""

    def __init__(self, folder: Path, server: RedisServer) -> None:
        self.folder = folder
        self.server = server
        self.services: list[Service] = []
        self.port, self.sim_port = free_port(), free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.folder / "sim" / "key").read_text().strip()

    def environ(self) -> dict[str, str]:
        url = self.server.url
        return environment(
            self.folder,
            ART_BUS_URL=url,
            ART_LIVE_URL=url,
            ART_STORE_URL=url,
            ART_GATEWAY_PORT=str(self.port),
            ART_SIM_PORT=str(self.sim_port),
            ART_INGEST_MARKETS="BTC,ETH",
            ART_INGEST_LOCK_TTL_S=str(LOCK_TTL_S),
            ART_PIPELINE_STORE_S="2",
            ART_PIPELINE_SLOW_STORE_S="2",
            ART_INGEST_HISTORY_DAYS="1",
        )

    def start(self, name: str) -> Service:
        self.services.append(Service(name, self.folder, self.environ()))
        return self.services[-1]

    def plain(self) -> "redis.Redis":
        """A client that knows only the streams."""
        return redis.Redis.from_url(self.server.url, decode_responses=True, protocol=2)

    def said(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def state(self, key: str) -> dict[str, object]:
        """A record of the store, empty while there is none."""
        with redis.Redis.from_url(self.server.url) as client:
            value = client.get(key)
        found: dict[str, object] = msgspec.json.decode(value) if value else {}
        return found


def leads(service: Service) -> bool:
    """Whether this ingest says in its log that it leads, and has not said since that it does not."""
    lines = [line for line in service.log.read_text(errors="replace").splitlines() if "leading" in line]
    return service.runs() and bool(lines) and "no longer" not in lines[-1]


@contextlib.contextmanager
def apart(folder: Path) -> Iterator[Apart]:
    """A server and an empty house; whatever was started in it is ended."""
    server = RedisServer(folder / "redis")
    server.start()
    made = Apart(folder, server)
    try:
        yield made
    finally:
        for service in reversed(made.services):
            if service.runs():
                os.kill(service.pid, signal.SIGCONT)
                service.kill()
        server.end()
