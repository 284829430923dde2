"""What holds when the log's server is killed, frozen or comes back empty, on Redis and on Kafka alike."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from artery.bus.base import START, Bus, Entry
from artery.bus.open import open_bus
from artery.errors import ArteryError, BadInput, Fenced, PositionLost, Unavailable
from tests.bus.steps import SAID_S, WAIT_S, again, lateness, numbered, numbers, soon, steady
from tests.kafka import BROKER, KafkaServer
from tests.servers import RedisServer, until

G = "cg_storage_trade"


@pytest.fixture(params=["redis", "kafka"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | KafkaServer]:
    """It is harmed here, but every test leaves it running; the broker is that of all tests."""
    if request.param == "kafka":
        BROKER.running_url()
        yield BROKER
        return
    redis = RedisServer(None, "--appendfsync", "always")  # so that a kill at any moment may lose nothing
    yield redis.start()
    redis.end()


@pytest.fixture
def opened(server: RedisServer | KafkaServer) -> Callable[[], Bus]:
    """Opens the log, always the same new one."""
    base = server.new_base() if isinstance(server, KafkaServer) else "md_stream"
    return lambda: open_bus(server.url, base)


async def all_of(bus: Bus, consumer: str, count: int) -> list[Entry]:
    """So many entries of the group, pending ones first; each is acked."""
    seen: dict[str, Entry] = {}
    async with asyncio.timeout(WAIT_S):
        while len(seen) < count:
            with suppress(Unavailable):
                page = await bus.read_pending("trade", G, consumer)
                page += await bus.claim("trade", G, consumer, 0)
                page += await bus.read_new("trade", G, consumer, wait_ms=200)
                seen |= {entry.id: entry for entry in page}
                await bus.ack("trade", G, [entry.id for entry in page])
    return list(seen.values())


class Watcher:
    """Follows the trades; what it saw, or that it was told of a loss."""

    def __init__(self, bus: Bus, after: str = START) -> None:
        self.seen: list[Entry] = []
        self.told: ArteryError | None = None
        self._task = asyncio.create_task(self._watch(bus, after))

    async def _watch(self, bus: Bus, after: str) -> None:
        try:
            async for entries in bus.follow("trade", after):
                self.seen += entries
        except PositionLost as error:
            self.told = error

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_a_killed_server_has_everything_that_was_acknowledged_once(
    server: RedisServer | KafkaServer, opened: Callable[[], Bus]
) -> None:
    bus = opened()
    acked: dict[str, int] = {}
    await bus.ensure_group("trade", G)
    await bus.append("trade", [], writer="sim", epoch=7)

    async def write() -> None:
        number = 0
        while True:
            number += 2
            pair = number, number + 1
            with suppress(Unavailable):
                acked.update(zip(await bus.append("trade", numbered(*pair), writer="sim", epoch=7), pair, strict=True))

    writing, watcher = asyncio.create_task(write()), Watcher(bus)
    await until(lambda: len(acked) > 100)
    given = await bus.read_new("trade", G, "a", limit=50)
    assert await bus.ack("trade", G, [entry.id for entry in given[:20]]) == 20
    server.kill()
    before = len(acked)
    async with lateness() as late:
        assert await soon(bus.head("trade")) < SAID_S + late()
    server.start()
    await until(lambda: len(acked) > before + 20)  # it goes on by itself
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await again(bus)
    head = await bus.head("trade")
    await until(lambda: watcher.seen[-1].id == head)  # it goes on by itself too
    await watcher.end()
    kept = await bus.read("trade", limit=10_000)
    assert watcher.seen == kept
    found = {entry.id: int(entry.fields["n"]) for entry in kept}
    assert len(found) == len(kept)
    assert [(id_, number) for id_, number in found.items() if id_ in acked] == list(acked.items())  # all, in order
    assert len(set(found.values())) == len(found)  # nothing is there twice
    given_again = {entry.id for entry in await all_of(bus, "a", len(kept) - 20)}
    assert given_again == set(found) - {entry.id for entry in given[:20]}
    with pytest.raises(Fenced):
        await bus.append("trade", numbered(1), writer="sim", epoch=6)
    await bus.close()


async def test_calls_to_a_frozen_server_fail_in_time_and_work_resumes(
    server: RedisServer | KafkaServer, opened: Callable[[], Bus]
) -> None:
    bus = opened()
    await bus.ensure_group("trade", G)
    ids = await bus.append("trade", numbered(*range(3)))
    given = await bus.read_new("trade", G, "a", limit=2)
    watcher = Watcher(bus)
    await until(lambda: len(watcher.seen) == 3)
    async with lateness() as late:
        with server.frozen():
            waits = await asyncio.gather(
                soon(bus.append("trade", numbered(7))),
                soon(bus.append("candle", numbered(7))),
                soon(bus.read("trade")),
                soon(bus.head("trade")),
                soon(bus.ack("trade", G, [given[0].id])),
                soon(bus.read_new("trade", G, "a")),
                soon(bus.read_new("trade", G, "b", wait_ms=60_000)),
                soon(bus.groups("trade")),
                soon(bus.streams()),
                soon(bus.trim("trade", keep=10)),  # which the server may do yet
                *(soon(bus.head("book")) for _ in range(20)),  # more than there are connections
            )
        assert max(waits) < SAID_S + late()
    await again(bus)
    await bus.append("trade", numbered(8))
    await until(lambda: watcher.seen[-1].fields["n"] == "8")
    await watcher.end()
    assert [entry.id for entry in watcher.seen[:3]] == ids
    assert numbers(watcher.seen[3:]) in ([8], [7, 8])  # of the append that failed nobody knows
    got = await all_of(bus, "a", len(watcher.seen) - 1)
    assert {entry.id for entry in got} >= {entry.id for entry in watcher.seen} - {given[0].id}
    await bus.close()


async def test_readers_and_groups_of_a_server_that_came_back_empty_are_told_once_and_begin_again(
    server: RedisServer | KafkaServer, opened: Callable[[], Bus]
) -> None:
    bus = opened()
    for stream in ("trade", "book"):
        await bus.ensure_group(stream, G)
    old = await bus.append("trade", numbered(*range(20)))
    entries = await bus.read_new("trade", G, "a", limit=2)
    watcher = Watcher(bus, old[-2])
    await until(lambda: len(watcher.seen) == 1)
    server.kill()
    server.forget()
    server.start()
    with pytest.raises(PositionLost) as lost:
        await steady(lambda: bus.read("trade", after=old[-1]))
    assert lost.value.first == START
    await until(lambda: watcher.told is not None)
    await again(bus)
    await bus.append("trade", numbered(*range(100, 130)))
    for position in (old[3], old[-1]):  # they are none of the new log's, however far it has grown
        with pytest.raises(PositionLost) as lost:
            await bus.read("trade", after=position)
        assert numbers(await bus.read("trade", after=lost.value.first, limit=1)) == [100]
    with pytest.raises(PositionLost):
        await steady(lambda: bus.read_new("trade", G, "a", wait_ms=5_000))
    assert await bus.ack("trade", G, [entry.id for entry in entries]) == 0
    assert numbers(await bus.read_new("trade", G, "a", limit=2, wait_ms=5_000)) == [100, 101]
    with pytest.raises(PositionLost):
        await steady(lambda: bus.read_new("book", G, "a"))
    assert await bus.read_new("book", G, "a") == []
    stranger = opened()  # who never knew the group is not told that it was lost
    with pytest.raises(BadInput):
        await stranger.read_new("candle", G, "a")
    for one in (stranger, bus):
        await one.close()
