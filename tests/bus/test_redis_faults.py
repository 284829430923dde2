"""What holds on Redis when a reply is not heard, and when a call is given up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import suppress

import pytest
import redis

from artery.bus.base import START
from artery.bus.redis import RedisBus
from artery.bus.redis_scripts import TAKE_BACK
from artery.errors import PositionLost
from artery.store.redis_link import Link
from tests.bus.steps import again, numbered, numbers, soon
from tests.faults.proxy import Proxy
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


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[Proxy]:
    async with Proxy(server.port) as between:
        yield between


async def all_new(bus: RedisBus, count: int, done: Sequence[str] = ()) -> list[int]:
    """What a consumer is given as new, once it is so much; a moment later it must not be more."""
    got: list[int] = []
    async with asyncio.timeout(30):
        while len(got) < count:
            got += numbers(await bus.read_new("trade", G, "a", limit=10, wait_ms=100, done=done))
    return got + numbers(await bus.read_new("trade", G, "a", limit=10, wait_ms=100))


async def test_what_is_done_is_acked_and_nothing_lost_though_the_read_with_it_was_not_heard(proxy: Proxy) -> None:
    bus = RedisBus(f"redis://127.0.0.1:{proxy.port}/0")
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(6)))
    done = [entry.id for entry in await bus.read_new("trade", G, "a", limit=2)]
    proxy.unheard = b"XACK"
    await soon(bus.read_new("trade", G, "a", limit=2, done=done))
    proxy.heal()
    assert await all_new(bus, 4, done) == [2, 3, 4, 5]
    assert numbers(await bus.read_pending("trade", G, "a")) == [2, 3, 4, 5]
    await bus.close()


@pytest.mark.parametrize("known", [True, False])
async def test_a_loss_is_said_though_the_answer_to_its_mending_was_not_heard(
    server: RedisServer, proxy: Proxy, known: bool
) -> None:
    bus = RedisBus(f"redis://127.0.0.1:{proxy.port}/0")
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(6)))
    assert numbers(await bus.read_new("trade", G, "a", limit=2)) == [0, 1]
    await bus.trim("trade", keep=1)
    if known:  # else the server does not know the script yet, and nothing is done
        with redis.Redis.from_url(server.url) as plain:
            plain.script_load(TAKE_BACK.text)
    proxy.unheard = TAKE_BACK.sha.encode()
    await soon(bus.read_new("trade", G, "a"))
    proxy.heal()
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "a")
    assert await all_new(bus, 1) == [5]
    await bus.close()


async def test_a_group_that_is_gone_is_said_though_the_answer_to_its_making_was_not_heard(
    server: RedisServer, proxy: Proxy
) -> None:
    bus = RedisBus(f"redis://127.0.0.1:{proxy.port}/0")
    await bus.ensure_group("trade", G)
    with redis.Redis.from_url(server.url) as plain:
        plain.flushall()
    await bus.append("trade", numbered(1, 2))
    proxy.unheard = b"XGROUP"
    await soon(bus.read_new("trade", G, "a"))
    proxy.heal()
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "a")
    assert await all_new(bus, 2) == [1, 2]
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
