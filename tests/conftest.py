"""What many tests share: one whole Artery, started once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.running import Running, up


@pytest.fixture(scope="session")
def artery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All of Artery, started as a user starts it, on the simulated venue; shared by every journey."""
    folder: Path = tmp_path_factory.mktemp("artery")
    with up(folder) as running:
        asyncio.run(running.until_open())
        yield running
