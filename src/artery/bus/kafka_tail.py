"""Watch the ends of streams: one thread hears what is appended, and keeps the newest for whoever follows."""

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from artery.bus.kafka_cursor import Row, row_of
from artery.bus.kafka_server import Server
from artery.telemetry import logger

KEEP_ROWS = 5_000
KEEP_BYTES = 8 * 1024 * 1024
_POLL_S = 0.05
_AGAIN_S = 0.2
"""Before the thread begins again after trouble that nobody foresaw."""
_PAGE = 1_000
_SETTINGS = {
    "group.id": "artery-tail",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 20,
    "queued.min.messages": 5_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 4_194_304,
}

_log = logger("bus")


class _Newest:
    """The newest records of a topic: all of those from `start` to before `end`."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.rows: deque[Row] = deque()
        self.size = 0
        self.used = time.monotonic()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.size += len(row.value)
        self.end = row.offset + 1
        while len(self.rows) > KEEP_ROWS or self.size > KEEP_BYTES:
            old = self.rows.popleft()
            self.size -= len(old.value)
            self.start = old.offset + 1


class Tail:
    """What others append is heard as soon as the broker has committed it. Belongs to one event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._newest: dict[str, _Newest] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._changes: queue.SimpleQueue[tuple[str, int | None] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def watch(self, topic: str, end: int) -> None:
        """Hear of what comes to a topic from this offset on, if it is not watched already."""
        with self._lock:
            if topic in self._newest:
                return
            self._newest[topic] = _Newest(end)
            self._changes.put((topic, end))
        self._loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="artery-kafka-tail", daemon=True)
            self._thread.start()

    def after(self, topic: str, offset: int, limit: int) -> list[Row] | None:
        """The records from an offset on that were heard of; None if some before these may be missing."""
        with self._lock:
            newest = self._newest.get(topic)
            if newest is None or offset < newest.start:
                return None
            if not newest.rows or newest.rows[-1].offset < offset:
                return []
            newer: list[Row] = []
            for row in reversed(newest.rows):
                if row.offset < offset:
                    break
                newer.append(row)
        return newer[::-1][:limit]

    def is_watched(self, topic: str) -> bool:
        with self._lock:
            return topic in self._newest

    async def beyond(self, topic: str, offset: int, wait_s: float) -> None:
        """Wait until a record with this offset or a later one is there, the watch has ended, or for so long."""
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            if self.after(topic, offset, 1) == []:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await event.wait()
        finally:
            self._waiting[topic].discard(event)

    def forget(self, topic: str) -> None:
        """The topic has changed otherwise than at its end: watch it no more, until asked to again."""
        with self._lock:
            known = self._newest.pop(topic, None)
        if known is not None:
            self._changes.put((topic, None))
        self._wake([topic])

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._changes.put(None)

    def _wake(self, topics: list[str]) -> None:
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def _work(self) -> None:
        while True:
            try:
                self._listen()
                return
            except Exception as error:  # no more is heard of any topic: whoever follows looks for the reason
                _log.warning("the ends of streams are watched anew", error=f"{type(error).__name__}: {error}")
            if self._give_up():
                return
            time.sleep(_AGAIN_S)

    def _listen(self) -> None:
        """Hear what comes, until closed."""
        consumer = Consumer(self._server.config(**_SETTINGS))
        try:
            while self._change(consumer):
                message = consumer.poll(_POLL_S)
                if message is not None:
                    self._hear([message, *consumer.consume(_PAGE, 0)])
        finally:
            with contextlib.suppress(Exception):
                consumer.close()

    def _give_up(self) -> bool:
        """Watch nothing any more, and have everybody look; whether the tail was closed meanwhile."""
        closed = False
        with self._lock:
            topics = list(self._newest)
            self._newest.clear()
            while not self._changes.empty():
                closed = self._changes.get() is None or closed
        self._tell(topics)
        return closed

    def _change(self, consumer: Any) -> bool:
        """Do what was asked for; False at the end."""
        while not self._changes.empty():
            change = self._changes.get()
            if change is None:
                return False
            topic, end = change
            with contextlib.suppress(Exception):
                consumer.incremental_unassign([TopicPartition(topic, 0)])
            if end is not None:
                consumer.incremental_assign([TopicPartition(topic, 0, end)])
        return True

    def _hear(self, messages: list[Any]) -> None:
        news: set[str] = set()
        for message in messages:
            topic, error = message.topic(), message.error()
            with self._lock:
                newest = self._newest.get(topic)
                if newest is None:
                    continue
                if error is None and message.offset() >= newest.end:
                    newest.add(row_of(message))
                    news.add(topic)
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                    del self._newest[topic]  # whoever follows looks for the reason
                    self._changes.put((topic, None))
                    news.add(topic)
        self._tell(list(news))

    def _tell(self, topics: list[str]) -> None:
        if topics and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # that loop has ended
                self._loop.call_soon_threadsafe(self._wake, topics)
