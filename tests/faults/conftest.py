"""Logs on every backend, seeds, and a table at the end."""

import itertools
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.logs import BACKENDS, Log, Servers
from tests.faults.processes import Stage
from tests.faults.processes import stage as staged
from tests.faults.trial import LONG, ROWS, SAID, Trial, seeds, table

collect_ignore = [] if LONG else ["test_pipeline_disk.py", "test_relay_outcomes.py"]

_SEEDS = seeds()
_bases = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario runs once with each seed; one that takes minutes (`ONCE` in its module) only with the first."""
    if "trial" in metafunc.fixturenames:
        metafunc.parametrize("seed", _SEEDS[:1] if getattr(metafunc.module, "ONCE", False) else _SEEDS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LONG and (ROWS or SAID):
        terminalreporter.section("faults")
        terminalreporter.write_line(table(ROWS))
        for line in SAID:
            terminalreporter.write_line(line)


@pytest.fixture
def trial(request: pytest.FixtureRequest, seed: int) -> Trial:
    name = re.sub(r"\[.*", "", request.node.name).removeprefix("test_").replace("_", " ")
    params = request.node.callspec.params
    backend = next((params[log] for log in ("each_log", "log", "some_log", "server_log") if log in params), "")
    return Trial(request.node.nodeid, f"{name} ({backend})" if backend else name, seed)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Real servers, each started by the first scenario that needs it and shared by all."""
    made = Servers()
    yield made
    made.end()


def _log(name: str, servers: Servers, folder: Path) -> Log:
    return servers.log(name, f"fault_{next(_bases)}", folder)


@pytest.fixture(params=BACKENDS)
def each_log(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Log:
    """A log with a base of its own, on each backend."""
    return _log(request.param, servers, tmp_path)


@pytest.fixture(params=BACKENDS if LONG else BACKENDS[:2])
def log(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Log:
    """The same, in short runs not on Kafka, which takes its time."""
    return _log(request.param, servers, tmp_path)


@pytest.fixture(params=BACKENDS if LONG else BACKENDS[:1])
def some_log(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Log:
    """For what hardly depends on the backend: a log on each in long runs, on the first alone in short ones."""
    return _log(request.param, servers, tmp_path)


@pytest.fixture(params=[name for name in BACKENDS if name != "sqlite"])
def server_log(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Log:
    """A log on each backend that has a server."""
    return _log(request.param, servers, tmp_path)


@pytest.fixture
def redis_log(servers: Servers, tmp_path: Path) -> Log:
    return _log("redis", servers, tmp_path)


@pytest.fixture
def sqlite_log(servers: Servers, tmp_path: Path) -> Log:
    return _log("sqlite", servers, tmp_path)
