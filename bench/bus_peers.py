"""What a user would write instead of the bus: the plain drivers, doing the same, without a loop between."""

import sqlite3
import time
from pathlib import Path
from typing import Protocol

import msgspec
import redis
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

Batch = list[dict[str, str]]
GROUP, CONSUMER = "cg_bench", "one"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class Peer(Protocol):
    name: str

    def append(self, batch: Batch) -> None: ...

    def read(self, count: int) -> int:
        """Read with a group and ack; how many."""
        ...

    def close(self) -> None: ...


class RawSqlite:
    """A row for each event, one synced transaction for each batch; a group's pending as rows, as deep as it goes."""

    name = "sqlite3, one transaction a batch"

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "raw.db", isolation_level=None, cached_statements=256)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE trade (id INTEGER PRIMARY KEY AUTOINCREMENT, ms INTEGER NOT NULL, body BLOB NOT NULL)",
            "CREATE TABLE groups (name TEXT PRIMARY KEY, last INTEGER NOT NULL)",
            "CREATE TABLE pending (name TEXT, id INTEGER, consumer TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID",
        ):
            self._db.execute(statement)
        self._db.execute("INSERT INTO groups VALUES (?, 0)", (GROUP,))

    def append(self, batch: Batch) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany(
            "INSERT INTO trade (ms, body) VALUES (?, ?)", [(now_ms, _encode(fields)) for fields in batch]
        )
        self._db.execute("COMMIT")

    def read(self, count: int) -> int:
        """What is given out is not synced, an ack is: as ours."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("BEGIN IMMEDIATE")
        rows = self._db.execute(
            "SELECT id, body FROM trade WHERE id > (SELECT last FROM groups WHERE name = ?) ORDER BY id LIMIT ?",
            (GROUP, count),
        ).fetchall()
        self._db.executemany("INSERT INTO pending VALUES (?, ?, ?)", [(GROUP, id_, CONSUMER) for id_, _ in rows])
        self._db.execute("UPDATE groups SET last = ? WHERE name = ?", (rows[-1][0], GROUP))
        self._db.execute("COMMIT")
        events = [_decode(body) for _, body in rows]
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("DELETE FROM pending WHERE name = ? AND id = ?", [(GROUP, id_) for id_, _ in rows])
        self._db.execute("COMMIT")
        return len(events)

    def close(self) -> None:
        self._db.close()


class RawRedis:
    """Pipelined XADD; XREADGROUP and XACK."""

    name = "redis-py, pipelined"
    _STREAM = "raw:trade"

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url, decode_responses=True)
        self._redis.xgroup_create(self._STREAM, GROUP, "0", mkstream=True)

    def append(self, batch: Batch) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for fields in batch:
            pipeline.xadd(self._STREAM, fields)  # type: ignore[arg-type]
        pipeline.execute()

    def read(self, count: int) -> int:
        [[_, entries]] = self._redis.xreadgroup(GROUP, CONSUMER, {self._STREAM: ">"}, count=count)
        self._redis.xack(self._STREAM, GROUP, *(id_ for id_, _ in entries))
        return len(entries)

    def close(self) -> None:
        self._redis.close()


class RawKafka:
    """A transaction for each batch; a subscribed group that commits each batch and waits for the broker's answer."""

    name = "librdkafka, one transaction a batch"
    _TOPIC = "raw.trade"
    _WAIT_S = 30

    def __init__(self, brokers: str) -> None:
        admin = AdminClient({"bootstrap.servers": brokers})
        admin.create_topics([NewTopic(self._TOPIC, 1, 1)])[self._TOPIC].result(self._WAIT_S)
        self._producer = Producer(
            {
                "bootstrap.servers": brokers,
                "transactional.id": "raw",
                "linger.ms": 20,
                "compression.type": "lz4",
                "log_level": 0,
            }
        )
        self._producer.init_transactions(self._WAIT_S)
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": GROUP,
                "client.id": CONSUMER,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "queued.min.messages": 10_000,  # as ours, or it would have fetched everything before it is timed
            }
        )
        self._consumer.subscribe([self._TOPIC])

    def append(self, batch: Batch) -> None:
        self._producer.begin_transaction()
        for fields in batch:
            key = f"{fields['provider']}|{fields['coin']}"
            self._producer.produce(self._TOPIC, _encode(fields), key, 0)
        self._producer.commit_transaction(self._WAIT_S)

    def read(self, count: int) -> int:
        messages = self._consumer.consume(count, self._WAIT_S)
        events = [_decode(message.value()) for message in messages]
        self._consumer.commit(message=messages[-1], asynchronous=False)
        return len(events)

    def close(self) -> None:
        self._consumer.close()
        self._producer.flush(self._WAIT_S)
