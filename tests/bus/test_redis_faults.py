"""What holds on Redis when a reply is not heard, and when a call is given up."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import suppress

import pytest

from artery.bus.base import START
from artery.bus.redis import RedisBus
from artery.store.redis_link import Link
from tests.bus.steps import again, numbered, numbers, soon
from tests.servers import RedisServer

G = "cg_storage_trade"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Synced at every write, so that a kill at any moment may lose nothing; synced once a second, it may lose what was
    acknowledged while a sync was under way."""
    made = RedisServer(None, "--appendfsync", "always")
    yield made.start()
    made.end()


async def all_written(server: RedisServer) -> None:
    """Until the server holds nothing that it has not handed to its system."""
    link, said = Link(server.url, "ART_BUS_URL", text=True), ""
    async with asyncio.timeout(30):
        while "aof_buffer_length:0\r" not in said:
            said = await link.call("INFO", "persistence")
    await link.close()


async def test_a_killed_server_that_syncs_once_a_second_has_all_that_its_system_had_taken() -> None:
    """What is acknowledged while a sync is under way may wait for it; when nothing waits, a kill loses nothing."""
    server = RedisServer().start()
    bus, acked = RedisBus(server.url), list[str]()
    try:
        for _ in range(3):
            for number in range(50):
                acked += await bus.append("trade", numbered(number))
            await all_written(server)
            server.kill()
            server.start()
            await again(bus)
            assert [entry.id for entry in await bus.read("trade")] == acked
    finally:
        await bus.close()
        server.end()


async def test_what_was_given_out_unheard_is_given_again_to_the_same_consumer(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(6)))
    assert numbers(await bus.read_new("trade", G, "a", limit=2)) == [0, 1]
    with server.frozen():  # the server will do it when it wakes, and nobody will hear the reply
        await soon(bus.read_new("trade", G, "a", limit=2))
    await again(bus)
    got: list[int] = []
    async with asyncio.timeout(30):
        while len(got) < 4:
            got += numbers(await bus.read_new("trade", G, "a", limit=10, wait_ms=100))
    assert sorted(got) == [2, 3, 4, 5]
    await bus.append("trade", numbered(6))
    assert numbers(await bus.read_new("trade", G, "a", wait_ms=5_000)) == [6]
    assert (await bus.group("trade", G)).pending == 7
    await bus.close()


async def test_a_call_that_is_given_up_leaves_nothing_that_others_could_hear(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    await bus.append("trade", numbered(*range(50)))
    for turns in range(60):
        task = asyncio.create_task(bus.read("trade", limit=turns % 50 + 1))
        for _ in range(turns % 12):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert numbers(await bus.read("trade", limit=2)) == [0, 1]
        assert await bus.head("book") == START
    await bus.close()


async def test_a_cancellation_is_never_swallowed(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    await bus.ensure_group("trade", G)
    with server.frozen():
        calls: list[Awaitable[object]] = [
            bus.append("trade", numbered(1)),
            bus.read_new("trade", G, "a", wait_ms=60_000),
            anext(aiter(bus.follow("trade"))),
        ]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        assert [type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 3
    await again(bus)
    assert (await bus.group("trade", G)).name == G
    await bus.close()
