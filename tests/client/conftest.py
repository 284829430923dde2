"""A log on each backend."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from artery.bus.base import Bus
from artery.bus.open import open_bus
from tests.client.logs import Log
from tests.kafka import BROKER
from tests.servers import RedisServer


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made
    made.end()


@pytest.fixture(params=["sqlite", "redis", "kafka"])
def log(request: pytest.FixtureRequest, server: RedisServer, tmp_path: Path) -> Log:
    if request.param == "kafka":
        return Log(BROKER.running_url(), BROKER.new_base())
    return Log(f"sqlite:///{tmp_path}/bus.db" if request.param == "sqlite" else server.new_url())


@pytest.fixture
async def bus(log: Log) -> AsyncIterator[Bus]:
    opened = open_bus(*log)
    yield opened
    await opened.close()
