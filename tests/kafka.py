"""A real Kafka broker for tests: one node in KRaft mode on a free loopback port, started and ended by pid."""

import atexit
import contextlib
import itertools
import os
import socket
import subprocess
import time
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.servers import TRIES, Server, free_port

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".cache" / "jars" / "broker"
WAIT_S = 60.0
_CLUSTER = "artery-test-broker-000"


class KafkaServer(Server):
    """A broker that syncs nothing but loses nothing when it is killed; it can be killed, frozen, restarted, emptied."""

    kept = "data"

    def __init__(self, folder: Path | None = None, **settings: str) -> None:
        super().__init__(folder)
        self._settings = settings
        self._bases = itertools.count(1)
        self._controller_port = 0
        self.locked_port = 0
        """Where it wants a user and a password: `me` and `right`."""

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    def running_url(self) -> str:
        """Its address; it is started if it does not run."""
        if self._process is None:
            self.start()
        return self.url

    def new_base(self) -> str:
        """A base that no topic begins with."""
        return f"base{next(self._bases)}"

    def start(self) -> "KafkaServer":
        """Start it where it was before, or on a free port, and wait until it answers."""
        fixed = self.port
        for _ in range(TRIES):  # a free port may be taken by another before the broker has it
            self.port = fixed or free_port()
            if not fixed:
                self._controller_port, self.locked_port = free_port(), free_port()
            self._prepare()
            self._process = self._java("kafka.Kafka", str(self._config))
            if self._answers():
                return self
        raise AssertionError(f"the broker did not start: {self._log.read_text()[-2_000:]}")

    @property
    def _config(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _prepare(self) -> None:
        """Write its settings, and its data folder if there is none: what `StorageTool format` would write."""
        self._folder.mkdir(parents=True, exist_ok=True)
        to_clients = f"PLAINTEXT://127.0.0.1:{self.port},LOCKED://127.0.0.1:{self.locked_port}"
        settings = _SETTINGS | {
            "listeners": f"{to_clients},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": to_clients,
            "log.dirs": str(self._folder / "data"),
        }
        settings |= {name.replace("_", "."): value for name, value in self._settings.items()}
        settings["controller.quorum.bootstrap.servers"] = settings["listeners"].rpartition("//")[2]
        self._config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not (self._folder / "data").exists():
            arguments = ("format", "--standalone", "-t", _CLUSTER, "-c", str(self._config))
            assert self._java("kafka.tools.StorageTool", *arguments).wait(WAIT_S) == 0, self._log.read_text()[-2_000:]

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        assert (JARS / ".complete").exists(), "the broker's jars are missing: run scripts/jars broker"
        with self._log.open("ab") as log:
            return subprocess.Popen([java, *_JVM, "-cp", f"{JARS}/*", main, *arguments], stdout=log, stderr=log)

    def _answers(self) -> bool:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                break
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return True
        self.kill()
        return False


BROKER = KafkaServer()
"""One for all tests that do it no harm; each takes a base of its own."""
atexit.register(BROKER.end)

_JVM = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.locked.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_me="right";'
    ),
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.session.timeout.ms": "3000",  # so long a killed broker is believed to live, when it comes back
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
