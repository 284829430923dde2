"""What is wrong with the set-up of Kafka's topics, for people."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import ConfigResource, ResourceType

from artery.bus.kafka_server import CALL_S, server_of
from artery.bus.kafka_topics import NOTES_SETTINGS, SETTINGS, Topics

_WHY = {
    "cleanup.policy": "entries are removed by their key, not by the trimmer",
    "retention.ms": "entries are removed by their age, whether or not they were read",
    "retention.bytes": "entries are removed when there are many, whether or not they were read",
    "max.message.bytes": "large entries are refused",
    "message.timestamp.type": "entries that are copied lose their times",
    "unclean.leader.election.enable": "a broker that has missed entries may take over",
}
_WHY_NOTES = _WHY | {"cleanup.policy": "epochs and the numbers of logs are forgotten in time"}


def findings(
    topic: str, config: Mapping[str, str], partitions: int, copies: int, brokers: int, *, notes: bool = False
) -> list[str]:
    """Sentences that say what to change, by what the brokers say of a stream's topic, or of that of the notes."""
    found, why = [], _WHY_NOTES if notes else _WHY
    for name, wanted in (NOTES_SETTINGS if notes else SETTINGS).items():
        value = config.get(name, wanted)
        if value != wanted and not (name == "max.message.bytes" and int(value) > int(wanted)):
            found.append(f"{topic} has {name}={value}, so {why[name]}: set {name}={wanted}")
    if partitions != 1:
        found.append(f"{topic} has {partitions} partitions, but only the first is read: make it anew with one")
    if copies < min(brokers, 3):
        found.append(
            f"{topic} is kept by {copies} of {brokers} brokers, so one disk can lose it: raise its replication"
        )
    least = int(config.get("min.insync.replicas", "1"))
    if copies >= 3 and least < 2:
        found.append(f"{topic} is acknowledged by {least} broker: set min.insync.replicas=2")
    return found


def look_at_kafka(url: str, base: str, setting: str = "ART_BUS_URL") -> list[str]:
    """What to change at the cluster that a URL names; nothing if all is well. One that cannot be used is raised."""
    server = server_of(url, setting)
    topics = Topics(server, base)
    try:
        return [f"{server.name}: {one}" for one in topics.renewed_after_trouble(_look)]
    except Exception as error:
        raise server.translate(error) from error
    finally:
        topics.close()


def _look(topics: Topics) -> list[str]:
    known = topics.admin.list_topics(timeout=CALL_S)
    notes = topics.notes.topic
    names = [name for name in (*map(topics.name, topics.streams()), notes) if name in known.topics]
    said = _configs(topics.admin, names)
    return [one for name in names for one in _of_topic(known, name, said[name], notes=name == notes)]


def _configs(admin: Any, names: list[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=CALL_S) if resources else {}
    return {
        resource.name: {entry.name: str(entry.value) for entry in future.result(CALL_S).values()}
        for resource, future in futures.items()
    }


def _of_topic(known: Any, name: str, config: dict[str, str], *, notes: bool) -> list[str]:
    partitions = known.topics[name].partitions
    copies = min((len(part.replicas) for part in partitions.values()), default=0)
    return findings(name, config, len(partitions), copies, len(known.brokers), notes=notes)
