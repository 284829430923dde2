"""Spark's workers read the same log without an event loop."""

import json
import pickle
from collections.abc import Iterator

import pytest

from artery.bus.base import START
from artery.bus.reader import open_reader
from artery.bus.redis import RedisBus
from artery.errors import PositionLost, Unavailable
from tests.servers import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made.start()
    made.end()


async def test_what_was_appended_is_read_as_json_up_to_a_position(server: RedisServer) -> None:
    url = server.new_url()
    bus, reader = RedisBus(url, "base"), open_reader(url, "base")
    assert (reader.head("trade"), reader.read_raw("trade", START, 10)) == (START, [])
    ids = await bus.append("trade", [{"n": str(n), "text": '"ü\n'} for n in range(20)])
    assert reader.head("trade") == ids[-1]
    rows = reader.read_raw("trade", START, 100)
    assert [(id_, json.loads(body)) for id_, body in rows] == [
        (id_, {"n": str(n), "text": '"ü\n'}) for n, id_ in enumerate(ids)
    ]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 5)] == ids[4:9]
    assert [id_ for id_, _ in reader.read_raw("trade", ids[3], 100, up_to=ids[7])] == ids[4:8]
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[7]) == []
    assert reader.read_raw("trade", ids[7], 100, up_to=ids[3]) == []
    assert reader.read_raw("trade", ids[-1], 100) == []
    reader.close()
    await bus.close()


async def test_a_position_that_is_gone_is_reported(server: RedisServer) -> None:
    url = server.new_url()
    bus, reader = RedisBus(url), open_reader(url)
    ids = await bus.append("trade", [{"n": str(n)} for n in range(20)])
    await bus.trim("trade", keep=5)
    for position in (START, ids[3]):
        with pytest.raises(PositionLost) as lost:
            reader.read_raw("trade", position, 100, up_to=ids[-1])
        assert [id_ for id_, _ in reader.read_raw("trade", lost.value.first, 100)] == ids[15:]
    with pytest.raises(PositionLost):
        reader.read_raw("trade", "99999999999999-0", 100)
    reader.close()
    await bus.close()


async def test_a_reader_travels_to_other_processes_and_outlives_a_restart() -> None:
    server = RedisServer(None, "--appendfsync", "always").start()
    try:
        bus = RedisBus(server.url)
        ids = await bus.append("trade", [{"n": "1"}])
        await bus.close()
        reader = pickle.loads(pickle.dumps(open_reader(server.url)))
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
