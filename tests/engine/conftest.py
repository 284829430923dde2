"""One house for each test, on SQLite unless the test asks for Redis."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.engine.made import House, house
from tests.servers import RedisServer


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """One server for all tests; it starts when the first one asks for a database."""
    server = RedisServer()
    yield server
    server.end()


@pytest.fixture
async def home(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> AsyncIterator[House]:
    url = redis.new_url() if getattr(request, "param", "sqlite") == "redis" else ""
    async with house(tmp_path, url) as made:
        yield made
