"""What a reader without an event loop does when its Redis server goes away."""

import pytest

from artery.bus.base import START
from artery.bus.reader import open_reader
from artery.bus.redis import RedisBus
from artery.errors import Unavailable
from tests.servers import RedisServer


async def test_a_reader_outlives_restarts_of_the_server() -> None:
    server = RedisServer(None, "--appendfsync", "always").start()
    try:
        bus = RedisBus(server.url)
        ids = await bus.append("trade", [{"n": "1"}])
        await bus.close()
        reader = open_reader(server.url)
        assert reader.head("trade") == ids[0]
        server.kill()
        with pytest.raises(Unavailable):
            reader.head("trade")
        server.start()
        assert reader.read_raw("trade", START, 10) == [(ids[0], b'{"n":"1"}')]
        server.kill()
        server.start()
        assert reader.head("trade") == ids[0]
        with server.frozen(), pytest.raises(Unavailable):
            reader.read_raw("trade", START, 10)
        assert reader.head("trade") == ids[0]
        reader.close()
    finally:
        server.end()
