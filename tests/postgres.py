"""A real PostgreSQL for tests: a cluster of its own on a free loopback port, started and ended by pid."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.servers import TRIES, Server, free_port

WAIT_S = 60.0
_PLACES = "/usr/lib/postgresql"
_USER, _PASSWORD, _DATABASE = "artery", "pass word/1", "postgres"
_OPTIONS = "-c fsync=off -c shared_buffers=16MB -c max_connections=20 -c jit=off"


class PostgresServer(Server):
    """It asks for a password, so that whoever reaches it was given one."""

    kept = "data"

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}:pass%20word%2F1@127.0.0.1:{self.port}/{_DATABASE}"

    def start(self) -> "PostgresServer":
        """Start it where it was before, or on a free port, and wait until it answers."""
        fixed = self.port
        self._prepare()
        for _ in range(TRIES):  # a free port may be taken by another before the server has it
            self.port = fixed or free_port()
            options = ["-p", str(self.port), "-k", str(self._folder), "-c", "listen_addresses=127.0.0.1"]
            with (self._folder / "log").open("ab") as log:
                command = [_program("postgres"), "-D", str(self._folder / "data"), *options, *_OPTIONS.split(" ")]
                self._process = subprocess.Popen(command, stdout=log, stderr=log, user=_user())
            if self._answers():
                return self
        raise AssertionError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()[-1_000:]}")

    def _prepare(self) -> None:
        if (self._folder / "data").exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        secret = self._folder / "password"
        secret.write_text(_PASSWORD)
        if user := _user():
            for path in (self._folder, secret):
                shutil.chown(path, user)
        access = ["-U", _USER, "-A", "scram-sha-256", f"--pwfile={secret}"]
        command = [_program("initdb"), "-D", str(self._folder / "data"), "--no-sync", "--no-locale", "-E", "UTF8"]
        done = subprocess.run([*command, *access], capture_output=True, text=True, check=False, user=_user())
        assert done.returncode == 0, done.stderr[-1_000:]

    def _answers(self) -> bool:
        import psycopg2

        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(psycopg2.OperationalError):
                psycopg2.connect(self.url, connect_timeout=1).close()
                return True
            time.sleep(0.05)
        self.kill()
        return False


def _program(name: str) -> str:
    found = sorted(Path(_PLACES).glob(f"*/bin/{name}"))
    program = shutil.which(name) or (str(found[-1]) if found else "")
    assert program, f"{name} is missing: run scripts/setup test"
    return program


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "postgres" if os.geteuid() == 0 else None
