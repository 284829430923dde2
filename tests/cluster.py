"""A real Spark standalone cluster for tests: one master, workers of one core each, all on loopback, ended by pid."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from artery.pipeline import java
from artery.pipeline.session import spark_home
from tests.servers import free_port

WAIT_S = 60.0
_JVM = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
WORKER_MB = 800


class Cluster:
    """A master and its workers; a worker can be killed with all that runs on it, as a machine would be."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._port, self._web = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        shown = ("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._web))
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", *shown)
        self.workers = [self._worker(number) for number in range(workers)]

    def wait(self) -> None:
        """Until every worker has said that it is there."""
        deadline = time.monotonic() + WAIT_S
        while self._alive() < len(self.workers):
            assert time.monotonic() < deadline, "Spark's workers did not come"
            assert self._master.poll() is None, (self._folder / "master.log").read_text()[-1_000:]
            time.sleep(0.1)

    def executors(self, worker: int) -> list[psutil.Process]:
        """The executors that this worker has started, and their Python workers."""
        return list(psutil.Process(self.workers[worker].pid).children(recursive=True))

    def freeze(self, worker: int, *, on: bool = True) -> None:
        for process in self.executors(worker):
            process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def kill(self, worker: int) -> None:
        """The worker and all that runs on it, without a word."""
        lost = [*self.executors(worker), psutil.Process(self.workers[worker].pid)]
        for process in lost:
            process.kill()
        self.workers[worker].wait(WAIT_S)
        psutil.wait_procs(lost, WAIT_S)

    def end(self) -> None:
        for number, worker in enumerate(self.workers):
            if worker.poll() is None:
                self.kill(number)
        self._master.kill()
        self._master.wait(WAIT_S)

    def _worker(self, number: int) -> "subprocess.Popen[bytes]":
        folder = self._folder / f"worker{number}"
        limits = ("--cores", "1", "--memory", f"{WORKER_MB}m", "--work-dir", str(folder), "--webui-port", "0")
        main = "org.apache.spark.deploy.worker.Worker"
        return self._start(f"worker{number}", main, "--host", "127.0.0.1", *limits, self.master)

    def _start(self, name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        self._folder.mkdir(parents=True, exist_ok=True)
        home = spark_home()
        environ = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(self._folder / f"{name}-scratch")}
        environ |= {"SPARK_SCALA_VERSION": "2.13"}  # as Spark's own start scripts do
        command = [str(java.find_java()), *java.MODULES, *_JVM, "-cp", f"{home}/jars/*", main, *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environ)

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=5) as answer:
                return answer.read().decode().count('"ALIVE"') - 1
        except (urllib.error.URLError, OSError):
            return 0
