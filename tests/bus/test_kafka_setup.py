"""A Kafka that cannot be used is named in one sentence that says what to do; topics are made as they must be."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from artery.bus.base import START
from artery.bus.kafka import KafkaBus
from artery.bus.kafka_check import findings, look_at_kafka
from artery.bus.kafka_server import server_of
from artery.bus.kafka_topics import SETTINGS
from artery.errors import BadSetting, CannotStart, Unavailable
from tests.bus.steps import answering, said
from tests.kafka import BROKER, KafkaServer
from tests.servers import free_port


@pytest.fixture(scope="module")
def broker() -> KafkaServer:
    BROKER.running_url()
    return BROKER


def admin_of(broker: KafkaServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.url.removeprefix("kafka://")})


def test_an_address_says_where_and_how_and_its_name_no_secret() -> None:
    server = server_of("kafka://me:my%2Fsecret@one:9093,two?sasl=SCRAM-SHA-512&tls=on&ca=/ca.pem", "ART_BUS_URL")
    assert server.name == "Kafka at one:9093,two:9092"
    assert server.options == {
        "bootstrap.servers": "one:9093,two:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "my/secret",
        "ssl.ca.location": "/ca.pem",
    }


async def test_a_wrong_password_and_one_that_is_missing_are_said(broker: KafkaServer) -> None:
    where = f"127.0.0.1:{broker.locked_port}"
    assert "refuses this user or password" in await said(f"kafka://me:wrong-secret@{where}", BadSetting)
    assert "wants no password or TLS that ART_BUS_URL does not give" in await said(f"kafka://{where}", Unavailable)
    bus = KafkaBus(f"kafka://me:right@{where}", broker.new_base())
    assert await bus.append("trade", [{"n": "1"}])
    await bus.close()


@pytest.fixture
async def old_broker() -> AsyncIterator[str]:
    """Speaks Kafka's protocol as a broker of 2016 did: it knows no transactions, nor ids of topics."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(4):
            request = await reader.readexactly(struct.unpack(">i", head)[0])
            api, version, number = struct.unpack(">hhi", request[:8])
            body = _versions(version) if api == 18 else _metadata(port, request[8:])
            writer.write(struct.pack(">ii", len(body) + 4, number) + body)

    async with answering(serve) as port:
        yield f"kafka://127.0.0.1:{port}"


def _versions(asked: int) -> bytes:
    known = [(3, 0, 1), (18, 0, 0)]
    rows = b"".join(struct.pack(">hhh", *row) for row in known)
    return struct.pack(">hi", 35 if asked else 0, len(known)) + rows


def _metadata(port: int, request: bytes) -> bytes:
    """One broker, and none of the topics that were asked for."""
    host = b"127.0.0.1"
    broker = struct.pack(">ih", 1, len(host)) + host + struct.pack(">ih", port, -1)
    asked = request[2 + struct.unpack(">h", request[:2])[0] :]
    names, rest = [], asked[4:]
    for _ in range(max(0, struct.unpack(">i", asked[:4])[0])):
        length = struct.unpack(">h", rest[:2])[0]
        names.append(rest[: 2 + length])
        rest = rest[2 + length :]
    topics = b"".join(struct.pack(">h", 3) + name + struct.pack(">bi", 0, 0) for name in names)
    return struct.pack(">i", 1) + broker + struct.pack(">ii", 1, len(names)) + topics


async def test_a_broker_that_is_too_old_is_refused(old_broker: str) -> None:
    assert "is too old: Artery needs Kafka 3.1 or newer" in await said(old_broker, CannotStart)


async def test_topics_are_made_so_that_only_the_trimmer_removes(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.append("trade", [{"n": "1"}])
    await bus.close()
    resource = ConfigResource(ResourceType.TOPIC, f"{base}.trade")
    admin = admin_of(broker)
    [future] = admin.describe_configs([resource]).values()
    config = {entry.name: entry.value for entry in future.result(30).values()}
    assert {name: config[name] for name in SETTINGS} == SETTINGS
    assert look_at_kafka(broker.url, base) == []


async def test_the_check_says_what_is_dangerous(broker: KafkaServer) -> None:
    base = broker.new_base()
    admin = admin_of(broker)
    topic = NewTopic(f"{base}.trade", 2, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([topic])[topic.topic].result(30)
    found = look_at_kafka(broker.url, base)
    for words in ("cleanup.policy=delete", "retention.ms=-1", "2 partitions", "max.message.bytes"):
        assert any(words in sentence for sentence in found), words
    assert all(sentence.startswith(f"Kafka at 127.0.0.1:{broker.port}: {base}.trade ") for sentence in found)
    with pytest.raises(Unavailable, match="nothing listens there"):
        look_at_kafka(f"kafka://127.0.0.1:{free_port()}", base)


async def test_notes_that_would_be_forgotten_are_said(broker: KafkaServer) -> None:
    base = broker.new_base()
    admin = admin_of(broker)
    topic = NewTopic(f"{base}-notes", 2, 1, config={"cleanup.policy": "delete"})
    admin.create_topics([topic])[topic.topic].result(30)
    where = f"Kafka at 127.0.0.1:{broker.port}: {base}-notes has"
    policy, partitions = look_at_kafka(broker.url, base)
    assert policy.startswith(f"{where} cleanup.policy=delete, so epochs and the numbers of logs are forgotten")
    assert policy.endswith("set cleanup.policy=compact")
    assert partitions == f"{where} 2 partitions, but only the first is read: make it anew with one"


def test_too_few_copies_are_said_where_there_are_brokers_for_more() -> None:
    assert findings("t", {}, 1, 1, 1) == []
    assert "1 of 3 brokers" in findings("t", {}, 1, 1, 3)[0]
    assert "min.insync.replicas=2" in findings("t", {"min.insync.replicas": "1"}, 1, 3, 3)[0]
    assert findings("t", {"min.insync.replicas": "2"}, 1, 3, 3) == []


async def test_a_setting_that_was_changed_is_noticed(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.append("trade", [{"n": "1"}])
    await bus.close()
    change = ConfigEntry("retention.ms", "604800000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, f"{base}.trade", incremental_configs=[change])
    admin = admin_of(broker)
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(30)
    [found] = look_at_kafka(broker.url, base)
    assert found.endswith("set retention.ms=-1")


async def test_more_copies_than_brokers_are_refused(broker: KafkaServer) -> None:
    assert "?replication=1" in await said(f"{broker.url}?replication=3", BadSetting)


async def test_what_a_foreign_producer_wrote_comes_as_it_is(broker: KafkaServer) -> None:
    base = broker.new_base()
    bus = KafkaBus(broker.url, base)
    await bus.ensure_group("trade", "cg")
    producer = Producer({"bootstrap.servers": broker.url.removeprefix("kafka://")})
    producer.produce(f"{base}.trade", b'{"t":"TRADE","coin":"BTC"}', "external|BTC")
    producer.produce(f"{base}.trade", b"\xff no JSON")
    assert producer.flush(30) == 0
    entries = await bus.read("trade", START)
    assert [entry.fields for entry in entries] == [{"t": "TRADE", "coin": "BTC"}, {"value": "\ufffd no JSON"}]
    assert [entry.id for entry in await bus.read_new("trade", "cg", "a", wait_ms=5_000)] == [e.id for e in entries]
    await bus.close()
