"""The topics that hold streams: their names, their settings, and which log a topic of a name is just now."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from artery.bus.base import START
from artery.bus.kafka_cursor import Cursor, Heights
from artery.bus.kafka_notes import Notes
from artery.bus.kafka_server import CALL_S, MISSING, OLDEST, Server, is_one_of
from artery.bus.kafka_transactions import Transactions
from artery.bus.sqlite_schema import check_base, table_of
from artery.errors import BadInput, CannotStart, Unavailable

FRESH_S = 1.0
"""How long it is believed that a topic is still the same."""
NOTES_FRESH_S = 5.0
LARGEST_BYTES = 4_194_304
SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(LARGEST_BYTES),
    "message.timestamp.type": "CreateTime",
    "unclean.leader.election.enable": "false",
}
"""What a stream's topic must be set to: the trimmer removes what is too much, nothing else may."""
NOTES_SETTINGS = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
"""What the notes' topic must be set to: the newest note of a name stays for ever."""
_COPIES = 3

T = TypeVar("T")
_LOG = "log:"


class Topic(NamedTuple):
    """A stream's topic. `log` tells it from every other topic that had or will have its name: it only rises."""

    stream: str
    name: str
    id: str
    log: int

    def position(self, offset: int) -> str:
        """Of the record with this offset: where a reader goes on after it."""
        return self.after(offset + 1)

    def after(self, next_offset: int) -> str:
        return f"{self.log}-{next_offset}" if next_offset else START

    def offsets(self, positions: Sequence[str]) -> list[int]:
        """The offsets of positions, rising, without those of other logs."""
        own = f"{self.log}-"
        try:
            mine = {int(text[len(own) :]) for text in positions if text.startswith(own)}
        except ValueError:
            mine = set()
        if len(mine) != len(positions):
            places = [place_in(position) for position in positions]
            mine = {number for log, number in places if log == self.log}
        return sorted(number - 1 for number in mine if number)

    def offset_of(self, position: str) -> int | None:
        """The offset of the record with this position; None if it is none of this log's."""
        log, number = place_in(position)
        return number - 1 if log == self.log and number else None


def place_in(position: str) -> tuple[int, int]:
    """A position as (log, next offset); `START` is (0, 0)."""
    log, _, number = position.partition("-")
    if not _is_number(log) or not _is_number(number or "0"):
        raise BadInput(f"{position!r:.40} is not a position of this log: hand back one that it gave")
    return int(log), int(number or 0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


class Topics:
    """Finds and makes the topics of a base; used by one thread."""

    def __init__(self, server: Server, base: str, heights: Heights | None = None) -> None:
        self._server = server
        self._base = check_base(base)
        self._admin: Any = None
        self._cursor = Cursor(server, heights)
        self.notes = Notes(server, f"{base}-notes", self._cursor)
        self._known: dict[str, tuple[Topic, float]] = {}
        self._notes_seen = float("-inf")

    def name(self, stream: str) -> str:
        """`trade` → `md_stream.trade`; a colon is not legal there."""
        table_of(self._base, stream)
        return f"{self._base}.{stream}"

    @property
    def admin(self) -> Any:
        if self._admin is None:
            self._admin = AdminClient(self._server.config())
        return self._admin

    def renewed_after_trouble(self, run: Callable[["Topics"], T]) -> T:
        """Do something; if the broker is silent, do not trust what the driver remembers of it the next time."""
        try:
            return run(self)
        except (KafkaException, TimeoutError):
            admin, self._admin = self._admin, None
            if admin is not None:
                admin.poll(0)  # in which the driver says it if it was refused
            raise

    def known(self, stream: str) -> Topic | None:
        """The topic, if it was looked at just now."""
        found = self._known.get(stream)
        return found[0] if found is not None and time.monotonic() - found[1] < FRESH_S else None

    def forget(self, stream: str) -> None:
        self._known.pop(stream, None)

    def find(self, stream: str, *, make: bool = False) -> Topic | None:
        """The stream's topic as it is now; made, if told so."""
        known = self.known(stream)
        if known is not None:
            return known
        name = self.name(stream)
        id_ = self._id(name)
        if id_ is None and make:
            id_ = self._make(name, SETTINGS)
        if id_ is None:
            self._known.pop(stream, None)
            return None
        before = self._known.get(stream)
        topic = before[0] if before and before[0].id == id_ else Topic(stream, name, id_, self._log(stream, id_))
        self._known[stream] = topic, time.monotonic()
        return topic

    def _id(self, name: str) -> str | None:
        """The id that the broker gave this topic; None if there is no such topic."""
        future = self.admin.describe_topics(TopicCollection([name]), request_timeout=CALL_S)[name]
        try:
            id_ = str(future.result(CALL_S).topic_id)
        except KafkaException as error:
            if is_one_of(error, MISSING):
                return None
            raise
        if not id_.strip("A="):  # all zero: the broker does not know of ids
            raise CannotStart(f"{self._server.name} is too old: Artery needs Kafka {OLDEST} or newer there")
        return id_

    def _make(self, name: str, settings: dict[str, str]) -> str:
        copies = self._server.replication or min(_COPIES, len(self.admin.list_topics(timeout=CALL_S).brokers))
        more = {"min.insync.replicas": str(max(1, copies - 1))}
        topic = NewTopic(name, num_partitions=1, replication_factor=copies, config=settings | more)
        future = self.admin.create_topics([topic], operation_timeout=CALL_S, request_timeout=CALL_S)[name]
        try:
            future.result(CALL_S)
        except KafkaException as error:
            if not is_one_of(error, (KafkaError.TOPIC_ALREADY_EXISTS,)):
                raise
        deadline = time.monotonic() + CALL_S
        while time.monotonic() < deadline:
            if (id_ := self._id(name)) is not None:
                return id_
            time.sleep(0.01)
        raise Unavailable(f"{self._server.name} has not made the topic {name} in time: try again")

    def make_notes(self) -> Notes:
        """The notes, which can be written to."""
        if not self.has_notes:
            if self._id(self.notes.topic) is None:
                self._make(self.notes.topic, NOTES_SETTINGS)
            self._notes_seen = time.monotonic()
        return self.notes

    @property
    def has_notes(self) -> bool:
        """Whether the notes' topic was there a moment ago."""
        return time.monotonic() - self._notes_seen < NOTES_FRESH_S

    def _log(self, stream: str, id_: str) -> int:
        """The number of a log: when its topic was first seen, in Unix ms; of several who say it the first is right."""
        noted = numbers_of(self.notes.fresh(), stream)
        if id_ not in noted:
            notes, token = self.make_notes(), secrets.token_hex(8)
            number = max([time.time_ns() // 1_000_000, *(before + 1 for before in noted.values())])
            transactions = Transactions(self._server, f"{self._base}.{token}")
            try:
                record = notes.record(f"{_LOG}{stream} {id_} {token}", str(number))
                transactions.write([record])
            finally:
                transactions.drop()
            noted = numbers_of(notes.fresh(), stream)
        if id_ not in noted:
            raise Unavailable(f"{self.name(stream)} is made anew just now: try again")
        return noted[id_]

    def streams(self) -> list[str]:
        """Every stream of the base, whoever made it."""
        prefix = f"{self._base}."
        names = [name for name in self.admin.list_topics(timeout=CALL_S).topics if name.startswith(prefix)]
        return sorted(filter(_is_stream, (name.removeprefix(prefix) for name in names)))

    def close(self) -> None:
        self._cursor.close()
        self._admin = None


def _is_stream(name: str) -> bool:
    try:
        table_of("", name)
    except BadInput:
        return False
    return True


def numbers_of(notes: Mapping[str, str], stream: str) -> dict[str, int]:
    """The number of each log that a stream ever was, by its topic's id, as the first who saw it has noted it."""
    numbers: dict[str, int] = {}
    for name, number in notes.items():  # in the order in which they were written
        if name.startswith(f"{_LOG}{stream} "):
            numbers.setdefault(name.split(" ")[1], int(number))
    return numbers
