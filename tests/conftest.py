"""What many tests share: one whole Artery, started once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from bench.running import Running, up

# The same examples every time, new ones in a long run; how fast an example is says nothing on a busy machine.
settings.register_profile(
    "artery",
    deadline=None,
    derandomize=not os.environ.get("ART_FAULT_LONG"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("artery")

# Whoever starts tests in the background may leave them deaf to Ctrl-C, and so every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def artery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All of Artery, started as a user starts it, on the simulated venue; shared by every journey."""
    folder: Path = tmp_path_factory.mktemp("artery")
    with up(folder, ART_INGEST_DEMAND_LEAVE_S="3") as running:
        asyncio.run(running.until_open())
        yield running


LAST = ("lake", "pipeline", "web", "journeys", "faults")
"""What starts Spark, a browser or all of Artery comes last, so that nothing else shares the machine with it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the heavy folders last, in this order; within a folder the order stays."""

    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LAST.index(folder) + 1 if folder in LAST else 0

    items.sort(key=rank)
