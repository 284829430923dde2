"""Read streams in Kafka without an event loop: what Spark's workers use."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from artery.bus.base import START
from artery.bus.kafka_cursor import Cursor, Missing, OutOfRange
from artery.bus.kafka_entries import READ_MAX, fields_of
from artery.bus.kafka_server import server_of
from artery.bus.kafka_streams import newest, nothing, read
from artery.bus.kafka_topics import Topic, Topics, place_in
from artery.bus.sqlite_schema import check_base
from artery.errors import ArteryError, Unavailable

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class KafkaReader:
    """Raw entries for a process that keeps its own position; connects on first use, and again after an error."""

    def __init__(self, url: str, base: str = "md_stream") -> None:
        self._url = url
        self._base = check_base(base)
        self._server = server_of(url, "ART_BUS_URL")
        self._opened: tuple[Topics, Cursor] | None = None

    def __reduce__(self) -> tuple[type["KafkaReader"], tuple[str, str]]:
        return KafkaReader, (self._url, self._base)

    def head(self, stream: str) -> str:
        """The newest position, or `START`."""

        def work(topics: Topics, cursor: Cursor) -> str:
            topic = topics.find(stream)
            return START if topic is None else topic.after(newest(cursor, topic))

        return self._do(work)

    def read_raw(self, stream: str, after: str, limit: int, up_to: str = "") -> list[tuple[str, bytes]]:
        """(position, JSON object of the fields) after a position, up to and including another; or `PositionLost`."""
        own, number = place_in(after)
        last = place_in(up_to) if up_to else None
        limit = max(0, min(limit, READ_MAX))

        def work(topics: Topics, cursor: Cursor) -> list[tuple[str, bytes]]:
            topic = topics.find(stream)
            if topic is None:
                nothing(topics.name(stream), after)
                return []
            end, log = _end(topic, last), f"{topic.log}-"
            # Not past the end by more than the broker's markers are: what is read for nothing is fetched once more.
            most = limit if end is None or own != topic.log else min(limit, max(1, end - number))
            rows = read(cursor, topic, after, most)
            # As `topic.position` has it, without a call for each of many.
            return [(f"{log}{offset + 1}", _object(value)) for offset, value, _ in rows if end is None or offset < end]

        return self._do(work)

    def step(self, after: str, limit: int) -> str | None:
        """The broker's own markers count too, so there may be fewer entries on the way."""
        log, number = place_in(after)
        return f"{log}-{number + limit}" if log else None

    def _do(self, work: Callable[[Topics, Cursor], T]) -> T:
        if self._opened is None:
            self._opened = Topics(self._server, self._base), Cursor(self._server)
        topics, cursor = self._opened
        try:
            return topics.renewed_after_trouble(lambda known: work(known, cursor))
        except ArteryError:
            raise
        except (Missing, OutOfRange):
            self.close()
            raise Unavailable(f"{self._server.name} changes its topics just now: try again") from None
        except Exception as error:
            self.close()
            raise self._server.translate(error) from error

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            for part in opened:
                part.close()


def _end(topic: Topic, last: tuple[int, int] | None) -> int | None:
    """The offset before which a reader is to stop; of an older log nothing is left to be read."""
    if last is None or last[0] > topic.log:
        return None
    return last[1] if last[0] == topic.log else 0


def _object(value: bytes) -> bytes:
    """A record's value, which is a JSON object already if we wrote it."""
    return value if value.startswith(b"{") and value.endswith(b"}") else _encode(fields_of(value))
