"""Read a topic of one partition from any place, by one thread."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from artery.bus.kafka_server import CALL_S, MISSING, Server, is_one_of

KEEP_FROM = 50
"""A read of at least so many goes on fetching ahead, for the next one."""
BACK_MAX = 1_000_000
SETTLE_S = 1.0
"""How long a reader waits for what was written when it asked, and is not committed yet."""
_TURN_S = 0.001
_LOOK_AGAIN_S = 0.02
_LED_ANEW = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)
_SETTINGS = {
    "group.id": "artery-reader",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 2,
    "fetch.error.backoff.ms": 10,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 4_194_304,
}


T = TypeVar("T")


class Row(NamedTuple):
    """A record that is no marker of the broker's."""

    offset: int
    value: bytes
    message: Any

    @property
    def ms(self) -> int:
        """When it was appended, in Unix milliseconds."""
        return int(self.message.timestamp()[1])

    @property
    def key(self) -> bytes:
        return bytes(self.message.key() or b"")


def row_of(message: Any) -> Row:
    return Row(message.offset(), message.value() or b"", message)


class OutOfRange(Exception):
    """The offset lies before what is there, or after its end."""


class Missing(Exception):
    """There is no such topic, now."""


class Heights:
    """How far topics reach, with what is not committed yet; for any thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._consumer: Any = None

    def of(self, topic: str) -> int:
        """The offset behind the newest record."""
        with self._lock:
            if self._consumer is None:
                self._consumer = Consumer(self._server.config(**_SETTINGS | {"isolation.level": "read_uncommitted"}))
            return _end_of(self._consumer, topic)

    def close(self) -> None:
        with self._lock:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                with contextlib.suppress(Exception):
                    consumer.close()


def _end_of(consumer: Any, topic: str) -> int:
    """The offset behind the newest record that this consumer may see; a topic that it does not know has none."""
    try:
        return _offset_at(consumer, topic, OFFSET_END)
    except KafkaException as error:
        if is_one_of(error, MISSING):
            return 0
        raise


def _offset_at(consumer: Any, topic: str, place: int) -> int:
    """The offset of a time, or of an end."""

    def ask(within_s: float) -> int:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, place)], timeout=within_s)
        if found.error is not None:
            raise KafkaException(found.error)
        return int(found.offset)

    return _of_the_leader(consumer, topic, ask)


def _of_the_leader(consumer: Any, topic: str, ask: Callable[[float], T]) -> T:
    """What the topic's leader answers.

    A broker that was away for a moment leads its topics anew, a while after it is back. The driver asks on in the name
    of what it knew, until it has given up and looks who leads now.
    """
    deadline = time.monotonic() + CALL_S
    while True:
        try:
            return ask(max(0.1, deadline - time.monotonic()))
        except KafkaException as error:
            if not is_one_of(error, _LED_ANEW) or time.monotonic() > deadline:
                raise
        consumer.list_topics(topic, timeout=max(0.1, deadline - time.monotonic()))
        time.sleep(_LOOK_AGAIN_S)


class Cursor:
    """Reads committed records. Where it stopped it goes on without a new request to the broker."""

    def __init__(self, server: Server, heights: Heights | None = None) -> None:
        self._server = server
        self._heights, self._shared = heights or Heights(server), heights is not None
        self._consumer: Any = None
        self._at: tuple[str, int] | None = None
        self.newest: dict[str, tuple[tuple[str, int, int], int]] = {}
        """Where the newest record of a topic was found, when it had this id and these ends."""

    def read(self, topic: str, start: int, limit: int) -> list[Row]:
        """At most `limit` records from an offset on; fewer only where the topic ends."""
        if limit <= 0:
            return []
        consumer = self._open()
        if self._at != (topic, start):
            consumer.assign([TopicPartition(topic, 0, start)])
        self._at = None
        rows: list[Row] = []
        deadline = time.monotonic() + CALL_S
        while len(rows) < limit:
            end = self._take_from(topic, start, rows, limit, deadline)
            if end >= 0 and not self._waited_for_more(topic, end):
                consumer.unassign()
                return rows
        if limit >= KEEP_FROM:
            self._at = topic, rows[-1].offset + 1
        else:
            consumer.unassign()
        return rows

    def read_here(self, topic: str, start: int, limit: int) -> tuple[list[int], list[bytes]]:
        """The same without any wait: offsets and values of what was fetched already, if it goes on where it stopped."""
        if self._at != (topic, start):
            return [], []
        self._at = None
        messages = self._consumer.consume(limit, 0)
        good = [message for message in messages if message.error() is None]
        offsets = [message.offset() for message in good]
        if len(good) == len(messages):
            self._at = topic, offsets[-1] + 1 if offsets else start
        return offsets, [message.value() or b"" for message in good]

    def _take_from(self, topic: str, start: int, rows: list[Row], limit: int, deadline: float) -> int:
        """As below; begins anew where the driver said of an offset that is there that it is not.

        It may say so of where it stood before, and a trim that was under way is over by now."""
        try:
            return self._take(rows, limit, deadline)
        except OutOfRange:
            at, (low, end) = rows[-1].offset + 1 if rows else start, self._watermarks(topic)
            if not low <= at <= end or time.monotonic() > deadline:
                raise
            self._consumer.assign([TopicPartition(topic, 0, at)])
            return -1

    def _take(self, rows: list[Row], limit: int, deadline: float) -> int:
        """Take what has come, or wait for something; the offset where the topic ends, if it does, else -1."""
        messages = self._consumer.consume(limit - len(rows), 0)
        if not messages:
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            messages = [message]
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                rows.append(row_of(message))
                end = -1  # what had been the end was not, and more has come with the word of it
            elif error.code() == KafkaError._PARTITION_EOF:
                end = int(message.offset())
            else:
                self._raise(error)
        return end

    def _waited_for_more(self, topic: str, end: int) -> bool:
        """Whether more has been committed by now, of what was written when we asked.

        A writer hears that its transaction is committed a moment before readers can see it. Whoever looks after that
        must see it; a writer that died in the middle is not waited for to its end.
        """
        high = self._heights.of(topic)
        deadline = time.monotonic() + SETTLE_S
        now = end
        while now < high and time.monotonic() < deadline:
            now = _end_of(self._consumer, topic)
            if now < high:
                time.sleep(_TURN_S)
        return now > end

    def _raise(self, error: Any) -> None:
        self._consumer.unassign()
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise OutOfRange
        if error.code() in MISSING:
            raise Missing
        raise KafkaException(error)

    def ends(self, topic: str) -> tuple[int, int]:
        """The oldest offset that can be read, and the one behind the newest that is committed."""
        try:
            low, end = self._watermarks(topic)
        except KafkaException as error:
            if not is_one_of(error, MISSING):
                raise
            self._look_again(topic)
            low, end = self._watermarks(topic)
        return self._watermarks(topic) if self._waited_for_more(topic, end) else (low, end)

    def _watermarks(self, topic: str) -> tuple[int, int]:
        consumer = self._open()

        def ask(within_s: float) -> tuple[int, int]:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=within_s)
            return low, high

        return _of_the_leader(consumer, topic, ask)

    def _look_again(self, topic: str) -> None:
        """The driver remembers what was not there; ask the broker anew, or say that it is missing."""
        found = self._open().list_topics(topic, timeout=CALL_S).topics[topic]
        if found.error is not None or not found.partitions:
            raise Missing

    def back(self, topic: str, low: int, end: int, limit: int) -> list[Row]:
        """The newest records from `low` to before `end`, oldest first; markers of the broker make it look further."""
        span = 2 * limit + 2
        while True:
            start = max(low, end - span)
            rows = [row for row in self._between(topic, start, end) if row.offset < end] if start < end else []
            if len(rows) >= limit or start == low:
                return rows[-limit:]
            span = min(8 * span, BACK_MAX + span)

    def _between(self, topic: str, start: int, end: int) -> list[Row]:
        rows: list[Row] = []
        while start < end:
            page = self.read(topic, start, end - start)
            rows += page
            if len(page) < end - start or page[-1].offset >= end - 1:
                break
            start = page[-1].offset + 1
        return rows

    def at(self, topic: str, offsets: list[int], low: int) -> dict[int, Row]:
        """The records with just these (rising) offsets; those that are not there are left out."""
        found: dict[int, Row] = {}
        wanted = [offset for offset in offsets if offset >= low]
        while wanted:
            near = [offset for offset in wanted if offset < wanted[0] + max(1_000, 4 * len(wanted))]
            span = near[-1] - near[0] + 1
            rows = self.read(topic, near[0], min(span, 2 * len(near) + 50))
            found |= {row.offset: row for row in rows}
            reached = rows[-1].offset if rows else near[-1]
            wanted = [offset for offset in wanted if offset > max(reached, near[0])]
            if not rows:
                break
        return {offset: found[offset] for offset in offsets if offset in found}

    def time_to_offset(self, topic: str, ms: int) -> int:
        """The first offset whose record was appended at this time or later; -1 if there is none."""
        return _offset_at(self._open(), topic, ms)

    def _open(self) -> Any:
        if self._consumer is None:
            self._consumer = Consumer(self._server.config(**_SETTINGS))
        return self._consumer

    def close(self) -> None:
        consumer, self._consumer, self._at = self._consumer, None, None
        if consumer is not None:
            with contextlib.suppress(Exception):
                consumer.close()
        if not self._shared:
            self._heights.close()
