"""What the bus must remember beside the streams: a compacted topic of names and values."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from artery.bus.kafka_cursor import Cursor, Missing, OutOfRange, Row
from artery.bus.kafka_server import CALL_S, FENCED, Server, is_one_of
from artery.errors import Unavailable

PAGE = 5_000
VISIBLE_S = 1.0
_BOTH_AT_ONCE = (KafkaError.UNKNOWN, KafkaError.CONCURRENT_TRANSACTIONS)
"""What a broker may say when two of the same name come at the same moment."""
FENCED_MAX = 5
"""How often another writer of the same name may come between."""


class Record(NamedTuple):
    """One record to be written; `ms` 0: now."""

    topic: str
    key: bytes | None
    value: bytes | None
    ms: int = 0


class _Sink:
    """Hears where the records of one topic were put, in their order."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.failed: Any = None

    def done(self, error: Any, message: Any) -> None:
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.failed = error


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
        sinks = {topic: _Sink() for topic in {record.topic for record in records}}
        if not self.is_open:
            self.open()
        producer, deadline = self._producer, time.monotonic() + CALL_S
        try:
            producer.begin_transaction()
            for topic, key, value, ms in records:
                producer.produce(topic, value, key, 0, on_delivery=sinks[topic].done, timestamp=ms)
            if offsets is not None:
                producer.send_offsets_to_transaction([offsets], group, CALL_S)
            producer.commit_transaction(max(0.1, deadline - time.monotonic()))
            producer.poll(0)
        except (KafkaException, BufferError) as error:
            self.drop()
            failed = [sink.failed for sink in sinks.values() if sink.failed is not None]
            if failed and not is_one_of(error, FENCED):
                raise KafkaException(failed[0]) from error
            raise
        if sum(len(sink.offsets) for sink in sinks.values()) != len(records):
            self.drop()
            raise Unavailable(f"{self._server.name} did not say where it has put the entries: try again")
        each = {topic: iter(sink.offsets) for topic, sink in sinks.items()}
        return [next(each[record.topic]) for record in records]

    def drop(self) -> None:
        """Let go of the producer, without a wait for what it has under way."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                producer.purge()
            with contextlib.suppress(Exception):
                producer.close()


_SETTINGS = {
    "acks": "all",
    "linger.ms": 20,
    "transaction.timeout.ms": 6_000,
    "message.timeout.ms": 5_000,
    "message.max.bytes": 4_194_304,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
    "compression.type": "lz4",
}


class Notes:
    """Names and values, as the newest records of a compacted topic say them."""

    def __init__(self, server: Server, topic: str, cursor: Cursor) -> None:
        self.topic = topic
        self._server = server
        self._cursor = cursor
        self._next = 0
        self._known: dict[str, str] = {}

    def fresh(self) -> dict[str, str]:
        """All of them, with what others have written up to now."""
        try:
            self._read()
        except OutOfRange:
            self._next, self._known = 0, {}
            self._read()
        except Missing:
            self._next, self._known = 0, {}
        return self._known

    def _read(self) -> None:
        low, end = self._cursor.ends(self.topic)
        if self._next > end:
            raise OutOfRange
        self._next = max(self._next, low)
        while self._next < end:
            rows = self._cursor.read(self.topic, self._next, PAGE)
            for row in rows:
                self._learn(row)
            self._next = rows[-1].offset + 1 if len(rows) == PAGE else end

    def _learn(self, row: Row) -> None:
        name = row.key.decode("utf-8", "replace")
        if row.value:
            self._known[name] = row.value.decode("utf-8", "replace")
        else:
            self._known.pop(name, None)

    def record(self, name: str, value: str) -> Record:
        """What a transaction writes to note this; an empty value forgets the name."""
        return Record(self.topic, name.encode(), value.encode() if value else None)

    def change(self, transactions: Transactions, decide: Callable[[dict[str, str]], Sequence[Record]]) -> list[int]:
        """Write what `decide` makes of the notes, with nobody else of the same id between; [] if that is nothing."""
        for _ in range(FENCED_MAX):
            try:
                if not transactions.is_open:
                    transactions.open()
                records = decide(self.fresh())
                if not records:
                    return []
                placed = transactions.write(records)
            except KafkaException as error:
                if is_one_of(error, FENCED + _BOTH_AT_ONCE):
                    transactions.drop()
                    continue
                raise
            self.seen(records, placed)
            return placed
        raise Unavailable(f"others write to {self.topic} all the time: try again later")

    def seen(self, records: Sequence[Record], placed: Sequence[int]) -> None:
        """Wait until readers can see what was just written."""
        last = {record.topic: offset for record, offset in zip(records, placed, strict=True)}
        for topic, offset in last.items():
            self._cursor.wait_visible(topic, offset, VISIBLE_S)
