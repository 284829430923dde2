"""What holds when the Redis server is killed, emptied or frozen, and when a call is given up."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import suppress

import pytest

from artery.bus.base import START, Bus, Entry
from artery.bus.redis import RedisBus
from artery.errors import ArteryError, BadInput, Fenced, PositionLost, Unavailable
from tests.servers import RedisServer, until

G = "cg_storage_trade"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Synced at every write, so that a kill at any moment may lose nothing."""
    made = RedisServer(None, "--appendfsync", "always")
    yield made.start()
    made.end()


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"n": str(number)} for number in numbers]


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.fields["n"]) for entry in entries]


async def soon(call: Awaitable[object]) -> float:
    """How long a call takes to say that the server is away."""
    start = time.monotonic()
    with pytest.raises(Unavailable) as error:
        await call
    assert error.value.temporary
    return time.monotonic() - start


async def again(bus: Bus) -> None:
    """Wait until the server answers."""
    async with asyncio.timeout(30):
        while True:
            with suppress(Unavailable):
                await bus.head("trade")
                return


async def test_a_killed_server_has_everything_that_was_acknowledged(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    acked: list[str] = []
    await bus.ensure_group("trade", G)
    await bus.append("trade", [], writer="sim", epoch=7)

    async def write() -> None:
        for number in range(100_000):
            acked.extend(await bus.append("trade", numbered(number, number), writer="sim", epoch=7))

    writing = asyncio.create_task(write())
    await until(lambda: len(acked) > 200)
    given = [entry.id for entry in await bus.read_new("trade", G, "a", limit=50)]
    await bus.ack("trade", G, given[:20])
    server.kill()
    with pytest.raises(Unavailable):
        await writing
    server.start()
    await again(bus)
    kept = [entry.id for entry in await bus.read("trade", limit=10_000)]
    assert kept[: len(acked)] == acked
    assert len(kept) - len(acked) in (0, 2)  # of the last batch nobody heard: all of it or nothing
    assert [entry.id for entry in await bus.read_pending("trade", G, "a")] == given[20:]
    with pytest.raises(Fenced):
        await bus.append("trade", numbered(1), writer="sim", epoch=6)
    await bus.close()


async def test_a_follower_and_a_waiting_group_go_on_by_themselves_after_a_restart(server: RedisServer) -> None:
    bus, other = RedisBus(server.url), RedisBus(server.url)
    seen: list[int] = []
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(0))

    async def watch() -> None:
        async for entries in bus.follow("trade"):
            seen.extend(numbers(entries))

    task = asyncio.create_task(watch())
    await until(lambda: seen == [0])
    server.kill()
    await soon(other.append("trade", numbered(-1)))
    server.start()
    await again(other)
    await other.append("trade", numbered(1))
    await until(lambda: seen == [0, 1])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert numbers(await bus.read_new("trade", G, "a")) == [0, 1]
    await bus.close()
    await other.close()


async def test_readers_of_a_server_that_came_back_empty_are_told(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    old = await bus.append("trade", numbered(*range(20)))
    told: list[ArteryError] = []

    async def watch() -> None:
        try:
            async for _ in bus.follow("trade", after=old[-1]):
                pass
        except PositionLost as error:
            told.append(error)

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.05)
    server.kill()
    server.forget()
    server.start()
    await again(bus)
    with pytest.raises(PositionLost) as lost:
        await bus.read("trade", after=old[-1])
    assert lost.value.first == START
    await until(lambda: bool(told))
    await task
    await bus.append("trade", numbered(100, 101))
    for position in (old[3], old[-1]):  # they lie before the new log's beginning
        with pytest.raises(PositionLost) as lost:
            await bus.read("trade", after=position)
        assert numbers(await bus.read("trade", after=lost.value.first)) == [100, 101]
    await bus.close()


async def test_groups_of_a_server_that_came_back_empty_are_told_once_and_begin_again(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    await bus.ensure_group("trade", G)
    await bus.ensure_group("book", G)
    await bus.append("trade", numbered(*range(5)))
    entries = await bus.read_new("trade", G, "a", limit=2)
    server.kill()
    server.forget()
    server.start()
    await again(bus)
    await bus.append("trade", numbered(50, 51))
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "a", wait_ms=5_000)
    assert await bus.ack("trade", G, [entry.id for entry in entries]) == 0
    assert numbers(await bus.read_new("trade", G, "a", wait_ms=5_000)) == [50, 51]
    with pytest.raises(PositionLost):
        await bus.read_new("book", G, "a")
    assert await bus.read_new("book", G, "a") == []
    stranger = RedisBus(server.url)  # who never knew the group is not told that it was lost
    with pytest.raises(BadInput):
        await stranger.read_new("candle", G, "a")
    await stranger.close()
    await bus.close()


async def test_calls_to_a_frozen_server_fail_in_time_and_work_resumes(server: RedisServer) -> None:
    bus = RedisBus(server.url)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(3)))
    seen: list[int] = []

    async def watch() -> None:
        async for entries in bus.follow("trade"):
            seen.extend(numbers(entries))

    task = asyncio.create_task(watch())
    await until(lambda: len(seen) == 3)
    with server.frozen():
        waits = await asyncio.gather(
            soon(bus.append("trade", numbered(7))),
            soon(bus.read("trade")),
            soon(bus.head("trade")),
            soon(bus.read_new("trade", G, "a")),
            soon(bus.read_new("trade", G, "b", wait_ms=60_000)),
            soon(bus.ack("trade", G, ["1-1"])),
            soon(bus.trim("trade", keep=1)),
            *(soon(bus.head("book")) for _ in range(20)),  # more than there are connections
        )
    assert max(waits) < 6
    await again(bus)
    await bus.append("trade", numbered(8))
    await until(lambda: seen[-1] == 8)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.close()


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
