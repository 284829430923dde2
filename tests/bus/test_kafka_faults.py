"""What holds when the Kafka broker is killed, emptied or frozen, when topics change, and when members die."""

import asyncio
import functools
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from artery.bus.base import DEAD, START, Bus, Entry
from artery.bus.kafka import KafkaBus
from artery.errors import ArteryError, Fenced, PositionLost, Unavailable
from tests.kafka import BROKER, KafkaServer
from tests.servers import until

G = "cg_storage_trade"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def broker() -> KafkaServer:
    """It is harmed here, but every test leaves it running."""
    BROKER.running_url()
    return BROKER


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"n": str(number), "coin": "BTC"} for number in numbers]


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
    """Wait until the broker answers."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):
                await bus.head("trade")
                await bus.append("probe", [{"n": "1"}])
                return


async def all_of(bus: Bus, group: str, consumer: str, count: int) -> list[Entry]:
    """So many entries of a group, pending ones first; each is acked."""
    seen: dict[str, Entry] = {}
    async with asyncio.timeout(60):
        while len(seen) < count:
            with suppress(Unavailable):
                page = await bus.read_pending("trade", group, consumer)
                page += await bus.claim("trade", group, consumer, 0)
                page += await bus.read_new("trade", group, consumer, wait_ms=200)
                seen |= {entry.id: entry for entry in page}
                await bus.ack("trade", group, [entry.id for entry in page])
    return list(seen.values())


async def test_a_killed_broker_has_everything_that_was_acknowledged_once(broker: KafkaServer) -> None:
    bus = KafkaBus(broker.url, broker.new_base())
    acked: dict[str, int] = {}
    followed: list[Entry] = []
    await bus.ensure_group("trade", G)
    await bus.append("trade", [], writer="sim", epoch=7)
    number = 0

    async def write() -> None:
        nonlocal number
        while True:
            number += 2
            pair = number, number + 1
            with suppress(Unavailable):
                acked.update(zip(await bus.append("trade", numbered(*pair), writer="sim", epoch=7), pair, strict=True))

    async def follow() -> None:
        async for entries in bus.follow("trade"):
            followed.extend(entries)

    writing, following = asyncio.create_task(write()), asyncio.create_task(follow())
    await until(lambda: len(acked) > 100)
    given = await bus.read_new("trade", G, "a", limit=50)
    assert await bus.ack("trade", G, [entry.id for entry in given[:20]]) == 20
    broker.kill()
    before = len(acked)
    assert await soon(bus.head("trade")) < 3.5
    broker.start()
    await until(lambda: len(acked) > before + 20)  # it goes on by itself
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await again(bus)
    head = await bus.head("trade")
    await until(lambda: followed[-1].id == head)  # it goes on by itself too
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    kept = await bus.read("trade", limit=10_000)
    assert followed == kept
    found = {entry.id: int(entry.fields["n"]) for entry in kept}
    assert len(found) == len(kept)
    assert acked.items() <= found.items()  # nothing acknowledged is lost, each where it was said to be
    assert len(set(found.values())) == len(found)  # nothing is there twice
    once = [entry.id for entry in await all_of(bus, G, "a", len(kept) - 20)]
    assert set(once) == set(found) - {entry.id for entry in given[:20]}
    with pytest.raises(Fenced):
        await bus.append("trade", numbered(1), writer="sim", epoch=6)
    await bus.close()


async def test_calls_to_a_frozen_broker_fail_in_time_and_work_resumes(broker: KafkaServer) -> None:
    bus = KafkaBus(broker.url, broker.new_base())
    await bus.ensure_group("trade", G)
    ids = await bus.append("trade", numbered(*range(3)))
    given = await bus.read_new("trade", G, "a", limit=2)
    with broker.frozen():
        waits = await asyncio.gather(
            soon(bus.append("trade", numbered(7))),
            soon(bus.read("trade")),
            soon(bus.head("trade")),
            soon(bus.ack("trade", G, [given[0].id])),
            soon(bus.read_new("trade", G, "b", wait_ms=60_000)),
            soon(bus.groups("trade")),
            soon(bus.trim("trade", keep=1)),
        )
    assert max(waits) < 6
    await again(bus)
    await bus.append("trade", numbered(8))
    found = {entry.id: int(entry.fields["n"]) for entry in await bus.read("trade")}
    assert [found[id_] for id_ in ids] == [0, 1, 2]
    assert sorted(found.values()) in ([0, 1, 2, 8], [0, 1, 2, 7, 8])
    got = await all_of(bus, G, "a", len(found) - 1)
    assert {entry.id for entry in got} >= set(found) - {given[0].id}
    await bus.close()


async def test_a_fenced_leader_is_told_and_a_lower_epoch_never_shuts_out_a_higher_one(broker: KafkaServer) -> None:
    base = broker.new_base()
    old, new, older = (KafkaBus(broker.url, base) for _ in range(3))
    await old.append("trade", numbered(1), writer="sim", epoch=100)
    await new.append("trade", numbered(2), writer="sim", epoch=101)
    for _ in range(2):
        with pytest.raises(Fenced, match="epoch 101"):
            await old.append("trade", numbered(3), writer="sim", epoch=100)
    with pytest.raises(Fenced, match="epoch 101"):
        await older.append("book", numbered(3), writer="sim", epoch=99)
    await new.append("trade", numbered(4), writer="sim", epoch=101)
    await old.append("trade", numbered(5), writer="sim", epoch=102)  # it leads again
    with pytest.raises(Fenced, match="epoch 102"):
        await new.append("trade", numbered(6), writer="sim", epoch=101)
    assert numbers(await old.read("trade")) == [1, 2, 4, 5]
    for bus in (old, new, older):
        await bus.close()


async def test_a_topic_that_was_made_anew_is_reported_and_never_skipped(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus, other = KafkaBus(broker.url, base), KafkaBus(broker.url, base)
    await bus.ensure_group("trade", G)
    old = await bus.append("trade", numbered(*range(10)))
    assert len(await bus.read_new("trade", G, "a", limit=5)) == 5
    told: list[ArteryError] = []

    async def watch() -> None:
        try:
            async for _ in bus.follow("trade", after=old[-1]):
                pass
        except PositionLost as error:
            told.append(error)

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    admin = AdminClient({"bootstrap.servers": broker.url.removeprefix("kafka://"), "log_level": 0})
    admin.delete_topics([f"{base}.trade"])[f"{base}.trade"].result(30)
    fresh: list[str] = []
    async with asyncio.timeout(60):
        while len(fresh) < 30:  # more than there were, so that the old offsets exist again
            with suppress(Unavailable):
                fresh += await other.append("trade", numbered(100 + len(fresh)))
    await until(lambda: bool(told))
    await task
    for position in (old[3], old[-1]):
        with pytest.raises(PositionLost) as lost:
            await _steady(functools.partial(bus.read, "trade", position))
        assert numbers(await bus.read("trade", after=lost.value.first))[:2] == [100, 101]
    with pytest.raises(PositionLost):
        await _steady(lambda: bus.read_new("trade", G, "a"))
    assert numbers(await bus.read_new("trade", G, "a", limit=2, wait_ms=5_000)) == [100, 101]
    await bus.close()
    await other.close()


async def _steady(call: Callable[[], Awaitable[object]]) -> object:
    """The outcome, once the broker is done with the change."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):
                return await call()


async def test_readers_of_a_broker_that_came_back_empty_are_told(broker: KafkaServer) -> None:
    bus = KafkaBus(broker.url, broker.new_base())
    await bus.ensure_group("trade", G)
    old = await bus.append("trade", numbered(*range(20)))
    broker.kill()
    broker.forget()
    broker.start()
    with pytest.raises(PositionLost) as lost:
        await _steady(lambda: bus.read("trade", after=old[-1]))
    assert lost.value.first == START
    await again(bus)
    await bus.append("trade", numbered(*range(100, 130)))
    for position in (old[3], old[-1]):
        with pytest.raises(PositionLost) as lost:
            await bus.read("trade", after=position)
        assert numbers(await bus.read("trade", after=lost.value.first, limit=1)) == [100]
    with pytest.raises(PositionLost):
        await _steady(lambda: bus.read_new("trade", G, "a"))
    assert numbers(await bus.read_new("trade", G, "a", limit=1, wait_ms=5_000)) == [100]
    await bus.close()


async def test_what_a_dead_process_held_is_given_to_another_in_order(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(10)))
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bus.kafka_holder", broker.url, base, G, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert holder.stdout is not None
    async with asyncio.timeout(60):
        assert await holder.stdout.readline() == b"0 1 2 3 4\n"
    assert await bus.read_new("trade", G, "b") == []  # another process has the stream
    assert await bus.claim("trade", G, "b", 0) == []
    holder.kill()
    await holder.wait()
    claimed: list[Entry] = []
    async with asyncio.timeout(60):
        while not claimed:
            claimed = await bus.claim("trade", G, "b", 0)
    assert numbers(claimed) == [2, 3, 4]  # it had acked two of them
    assert {entry.tries for entry in claimed} == {2}
    assert numbers(await bus.read_new("trade", G, "b")) == [5, 6, 7, 8, 9]
    await bus.close()


async def test_an_entry_is_given_up_once_though_the_broker_dies_meanwhile(broker: KafkaServer) -> None:
    bus = KafkaBus(broker.url, broker.new_base())
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(3)))
    entries = await bus.read_new("trade", G, "a")
    await bus.dead_letter("trade", G, entries[0], "cannot be read")
    with broker.frozen():
        await soon(bus.dead_letter("trade", G, entries[1], "cannot be read"))
    await again(bus)
    async with asyncio.timeout(60):
        while (await bus.group("trade", G)).pending > 1 or len(await bus.read(DEAD)) < 2:
            with suppress(Unavailable):
                for entry in await bus.read_pending("trade", G, "a"):
                    if entry.id == entries[1].id:
                        await bus.dead_letter("trade", G, entry, "cannot be read")
    letters = await bus.read(DEAD)
    assert [letter.fields["id"] for letter in letters] == [entries[0].id, entries[1].id]
    await bus.close()
