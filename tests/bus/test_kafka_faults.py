"""What holds when topics change under a Kafka bus, when members of a group die, and when leaders follow each other."""

import asyncio
import functools
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from artery.bus.base import DEAD, Entry, Trimmed
from artery.bus.kafka import KafkaBus
from artery.bus.kafka_cursor import Cursor
from artery.bus.kafka_server import server_of
from artery.errors import ArteryError, Fenced, PositionLost, Unavailable
from tests.bus.steps import again, numbered, numbers, soon, steady
from tests.kafka import BROKER, KafkaServer
from tests.servers import until

G = "cg_storage_trade"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def broker() -> KafkaServer:
    """It is harmed here, but every test leaves it running."""
    BROKER.running_url()
    return BROKER


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


def test_a_topic_that_is_led_anew_answers_whoever_knew_its_leader_of_before(broker: KafkaServer) -> None:
    topic = f"{broker.new_base()}.trade"
    admin = AdminClient({"bootstrap.servers": broker.url.removeprefix("kafka://"), "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    cursor = Cursor(server_of(broker.url, "ART_BUS_URL"))
    assert (cursor.ends(topic), cursor.time_to_offset(topic, 1)) == ((0, 0), -1)
    for _ in range(2):
        broker.kill()
        broker.start()
        assert (cursor.time_to_offset(topic, 1), cursor.ends(topic)) == (-1, (0, 0))
    cursor.close()


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
            await steady(functools.partial(bus.read, "trade", position))
        assert numbers(await bus.read("trade", after=lost.value.first))[:2] == [100, 101]
    with pytest.raises(PositionLost):
        await steady(lambda: bus.read_new("trade", G, "a"))
    assert numbers(await bus.read_new("trade", G, "a", limit=2, wait_ms=5_000)) == [100, 101]
    await bus.close()
    await other.close()


async def test_followers_go_on_after_trouble_that_ends_what_listens_for_them(broker: KafkaServer) -> None:
    bus = KafkaBus(broker.url, broker.new_base())
    await bus.append("trade", numbered(0))
    seen: list[int] = []

    async def watch() -> None:
        async for entries in bus.follow("trade"):
            seen.extend(numbers(entries))

    task = asyncio.create_task(watch())
    for number in range(1, 4):
        await until(lambda: seen == list(range(number)))  # noqa: B023
        bus._tail._changes.put(("trade", -7))  # which the driver refuses
        await bus.append("trade", numbered(number))
    await until(lambda: seen == [0, 1, 2, 3])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.close()


async def test_a_loss_is_counted_once_though_the_trim_fails_after_it_was_noted(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(50)))

    def change(policy: str) -> None:
        """Of a topic that is compacted, brokers remove nothing by hand."""
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, f"{base}.trade", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": broker.url.removeprefix("kafka://"), "log_level": 0})
        [future] = admin.incremental_alter_configs([resource]).values()
        future.result(30)

    change("compact")
    for most in (40, 35):
        with pytest.raises(ArteryError):
            await bus.trim("trade", keep=10, required=[G], keep_at_most=most)
    change("delete")
    assert await steady(lambda: bus.trim("trade", keep=10, required=[G], keep_at_most=30)) == Trimmed(20, 20)
    assert [(state.length, state.lost) for state in await bus.streams()] == [(30, 20)]
    await bus.append("trade", numbered(*range(50, 60)))
    assert await bus.trim("trade", keep=10, required=[G], keep_at_most=30) == Trimmed(10, 10)
    assert [(state.length, state.lost) for state in await bus.streams()] == [(30, 30)]
    await bus.close()


async def test_a_group_whose_state_another_program_overwrote_is_told_once_and_begins_again(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(3)))
    assert numbers(await bus.read_new("trade", G, "a", limit=1)) == [0]
    reading = bus._readings["trade", G]

    def overwrite() -> None:
        """Commit as a program does that knows only Kafka, and look at the group anew, as after a rebalance."""
        reading._member._consumer.commit(offsets=[TopicPartition(f"{base}.trade", 0, 3)], asynchronous=False)
        reading._member.forget()

    await reading.lane.call(overwrite)
    with pytest.raises(PositionLost, match="had lost its group"):
        await bus.read_new("trade", G, "a")
    assert numbers(await bus.read_new("trade", G, "a")) == [0, 1, 2]
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


async def test_what_was_acked_does_not_come_again_though_the_broker_did_not_hear_the_first_time(
    broker: KafkaServer,
) -> None:
    base = broker.new_base()
    bus, other = KafkaBus(broker.url, base), KafkaBus(broker.url, base)
    await bus.ensure_group("trade", G)
    await bus.append("trade", numbered(*range(3)))
    ids = [entry.id for entry in await bus.read_new("trade", G, "a")]
    broker.kill()
    await soon(bus.ack("trade", G, ids))
    await steady(lambda: bus._readings["trade", G].lane.call(lambda: None))  # the driver has given it up
    broker.start()
    await steady(lambda: bus.ack("trade", G, ids))
    await bus.close()
    assert (await steady(lambda: other.group("trade", G))).pending == 0
    await other.close()


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
        while (await steady(lambda: bus.group("trade", G))).pending > 1 or len(await bus.read(DEAD)) < 2:
            with suppress(Unavailable):
                for entry in await bus.read_pending("trade", G, "a"):
                    if entry.id == entries[1].id:
                        await bus.dead_letter("trade", G, entry, "cannot be read")
    letters = await bus.read(DEAD)
    assert [letter.fields["id"] for letter in letters] == [entries[0].id, entries[1].id]
    await bus.close()
