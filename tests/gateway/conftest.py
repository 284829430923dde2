"""Gateway tests run on the loop that the gateway runs on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from tests.gateway.running import Running, started
from tests.servers import RedisServer


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with started(tmp_path) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis of this folder's own; it starts with the first database that is asked for."""
    server = RedisServer()
    yield server
    server.end()
