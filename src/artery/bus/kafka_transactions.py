"""Write to Kafka: all of some records, or none of them."""

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer, TopicPartition

from artery.bus.kafka_server import CALL_S, FENCED, Server, is_one_of
from artery.errors import Unavailable

# What it has under way is undone by the broker: that is why it is dropped, and nothing that people need be told.
warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)

TOGETHER_MAX = 2_000
TOGETHER_MAX_BYTES = 500_000
"""Records that surely go into one batch of the driver's."""


class Record(NamedTuple):
    """One record to be written; `ms` 0: now."""

    topic: str
    key: bytes | None
    value: bytes | None
    ms: int = 0


class _Sink:
    """Hears where records of one topic were put: all of them, or the first and the last."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.failed: Any = None

    def done(self, error: Any, message: Any) -> None:
        if error is None:
            self.heard.append(message.offset())
        else:
            self.failed = error

    def offsets(self, count: int) -> Sequence[int]:
        """Where each of so many was put, in their order; nothing if that is not known."""
        if len(self.heard) == count:
            return self.heard
        first, last = (self.heard[0], self.heard[-1]) if self.heard else (0, 0)
        return range(first, last + 1) if last - first + 1 == count else []


class Transactions:
    """A transactional producer. The broker knows it by its id, and fences whoever had the same one before."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name
        self._producer: Any = None

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def open(self) -> None:
        """Fence whoever had this id before; what it had begun is undone."""
        self.drop()
        producer = Producer(self._server.config(**_SETTINGS, **{"transactional.id": self._name}))
        producer.list_topics(timeout=CALL_S)  # once a broker is known, the next call does not begin with a long pause
        producer.init_transactions(CALL_S)
        self._producer = producer

    def write(self, records: Sequence[Record], offsets: TopicPartition | None = None, group: Any = None) -> list[int]:
        """All of the records, and a group's offset if one is given, or nothing; the records' offsets.

        After any trouble the producer is dropped, and nothing is known of the outcome until another is opened.
        """
        counts = Counter(record.topic for record in records)
        sinks = {topic: _Sink() for topic in counts}
        hear = _to_hear(records)
        if not self.is_open:
            self.open()
        producer, deadline = self._producer, time.monotonic() + CALL_S
        try:
            producer.begin_transaction()
            for number, (topic, key, value, ms) in enumerate(records):
                if number in hear:
                    producer.produce(topic, value, key, 0, on_delivery=sinks[topic].done, timestamp=ms)
                else:
                    producer.produce(topic, value, key, 0, timestamp=ms)
            if offsets is not None:
                producer.send_offsets_to_transaction([offsets], group, CALL_S)
            producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            producer.poll(0)
        except (KafkaException, BufferError) as error:
            failed = [sink.failed for sink in sinks.values() if sink.failed is not None]
            self.drop()
            if failed and not is_one_of(error, FENCED):
                raise KafkaException(failed[0]) from error
            raise
        return self._placed(records, {topic: sink.offsets(counts[topic]) for topic, sink in sinks.items()})

    def _placed(self, records: Sequence[Record], offsets: dict[str, Sequence[int]]) -> list[int]:
        if sum(map(len, offsets.values())) != len(records):
            self.drop()
            raise Unavailable(f"{self._server.name} did not say where it has put the entries: try again")
        if len(offsets) == 1:
            return list(offsets[records[0].topic])
        each = {topic: iter(placed) for topic, placed in offsets.items()}
        return [next(each[record.topic]) for record in records]

    def drop(self) -> None:
        """Let go of the producer, without a wait for what it has under way."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.purge()
            with contextlib.suppress(Exception):
                producer.close()


def _to_hear(records: Sequence[Record]) -> Container[int]:
    """The numbers of those records of which it must be heard where they were put.

    What fits into one batch lies together in the topic, so that its first and last say enough: until a transaction is
    committed, a producer waits for more (`linger.ms`).
    """
    if len(records) > TOGETHER_MAX or sum(len(record.value or b"") for record in records) > TOGETHER_MAX_BYTES:
        return range(len(records))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, record in enumerate(records):
        first.setdefault(record.topic, number)
        last[record.topic] = number
    return {*first.values(), *last.values()}


_SETTINGS = {
    "acks": "all",
    "linger.ms": 1_000,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "transaction.timeout.ms": 6_000,
    "message.timeout.ms": 5_000,
    "message.max.bytes": 4_194_304,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
    "compression.type": "lz4",
}
