"""Streams in Kafka: what is appended, read, followed and found."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

from artery.bus.base import START, Entry
from artery.bus.kafka_cursor import Cursor, Heights, Missing, OutOfRange, Row
from artery.bus.kafka_entries import READ_MAX, entries_of, records_of
from artery.bus.kafka_server import ANSWER_S, server_of
from artery.bus.kafka_tail import Tail
from artery.bus.kafka_thread import Lane
from artery.bus.kafka_topics import Topic, Topics, place_in
from artery.bus.kafka_transactions import Record
from artery.bus.kafka_writer import Writer, now_ms
from artery.errors import BadInput, PositionLost, TooMuch, Unavailable
from artery.telemetry import logger

WAIT_S = 1.0
"""How long one wait for news may last, so that what is wrong is noticed."""
UNMADE_S = 0.05
PAUSE_MAX_S = 2.0
FIRST_S = 2 * ANSWER_S
"""The first call of a stream may have to make its topic."""
_EPOCH_MAX = 2**63 - 1

T = TypeVar("T")
_log = logger("bus")


class KafkaStreams:
    """The part of the bus that knows no groups. A stream is a topic of one partition, so that its entries have one
    order; a position is the number of the log and the offset after the entry's own."""

    def __init__(self, url: str, base: str = "md_stream") -> None:
        self._server = server_of(url, "ART_BUS_URL")
        self._base = base
        self._heights = Heights(self._server)
        self._topics = Topics(self._server, base, self._heights)
        self._lane_of_topics: Lane | None = None
        self._reads: dict[str, tuple[Lane, Cursor]] = {}
        self._writers: dict[str, Writer] = {}
        self._own = f"{base}.{secrets.token_hex(8)}"
        self._tail = Tail(self._server)
        self._closed = False

    async def _ask(self, run: Callable[[Topics], T], within_s: float = ANSWER_S) -> T:
        """Something about topics, on the thread that looks after them."""
        if self._lane_of_topics is None:
            self._lane_of_topics = Lane(self._server, "artery-kafka-topics")
            self._lane_of_topics.finally_(self._topics.close)
        return await self._lane_of_topics.call(lambda: self._topics.renewed_after_trouble(run), within_s=within_s)

    async def _topic(self, stream: str) -> Topic | None:
        self._topics.name(stream)
        known = self._topics.known(stream)
        return known or await self._ask(lambda topics: topics.find(stream))

    async def _made(self, stream: str) -> Topic:
        self._topics.name(stream)
        topic = self._topics.known(stream) or await self._ask(lambda topics: topics.find(stream, make=True), FIRST_S)
        if topic is None:
            raise Unavailable(f"{self._topics.name(stream)} could not be made: try again")
        return topic

    async def _look(self, topic: Topic, run: Callable[[Cursor], T]) -> T:
        """Something in a stream, on the thread that reads it."""
        if self._closed:
            raise Unavailable(f"{self._server.name} has been closed here: open it again")
        lane, cursor = self._reads.get(topic.stream) or self._new_read(topic.stream)
        try:
            return await lane.call(lambda: _translated(topic, cursor, run))
        except Unavailable:
            self._topics.forget(topic.stream)
            raise

    def _new_read(self, stream: str) -> tuple[Lane, Cursor]:
        cursor = Cursor(self._server, self._heights)
        lane = Lane(self._server, "artery-kafka-read")
        lane.finally_(cursor.close)
        self._reads[stream] = lane, cursor
        return lane, cursor

    def _writer(self, name: str) -> Writer:
        if name not in self._writers:
            id_ = f"{self._base}.writer.{name}" if name else self._own
            self._writers[name] = Writer(self._server, id_, name, self._topics.notes.topic, self._heights)
        return self._writers[name]

    async def append(
        self, stream: str, entries: Sequence[Mapping[str, str]], *, writer: str = "", epoch: int = 0
    ) -> list[str]:
        name = self._topics.name(stream)
        if epoch and not writer:
            raise BadInput("an epoch belongs to a writer: name it")
        if not 0 <= epoch <= _EPOCH_MAX:
            raise BadInput(f"an epoch is from 0 to {_EPOCH_MAX}, not {epoch}")
        records = records_of(name, entries, [now_ms()] * len(entries))
        if writer:
            await self._notes_made()
        return await self._write(stream, records, writer, epoch)

    async def _write(self, stream: str, records: list[Record], writer: str = "", epoch: int = 0) -> list[str]:
        if not records:
            await self._writer(writer).append([], epoch)
            return []
        topic = await self._made(stream)
        offsets = await self._writer(writer).append(records, epoch)
        return [f"{topic.log}-{offset + 1}" for offset in offsets]

    async def _notes_made(self) -> None:
        if not self._topics.has_notes:
            await self._ask(lambda topics: topics.make_notes(), FIRST_S)

    async def head(self, stream: str) -> str:
        topic = await self._topic(stream)
        return START if topic is None else topic.after(await self._look(topic, lambda cursor: newest(cursor, topic)))

    async def read(self, stream: str, after: str = START, limit: int = 1_000) -> list[Entry]:
        return await self._read(stream, after, limit, whole=True)

    async def _read(self, stream: str, after: str, limit: int, *, whole: bool) -> list[Entry]:
        """What follows a position; unless it has to be the `whole`, what was heard of the stream's end will do."""
        place = place_in(after)
        topic = await self._topic(stream)
        if topic is None:
            return nothing(self._topics.name(stream), after)
        limit = max(0, min(limit, READ_MAX))
        rows = self._tail.after(topic.name, place[1], limit) if place[0] == topic.log else None
        if rows is None or (whole and len(rows) < limit):
            rows = await self._look(topic, lambda cursor: read(cursor, topic, after, limit))
        return entries_of(topic, rows)

    async def read_back(self, stream: str, limit: int, before: str = "") -> list[Entry]:
        place = place_in(before) if before else None
        topic = await self._topic(stream)
        if topic is None or limit <= 0:
            return []

        def work(cursor: Cursor) -> list[Row]:
            low, end = cursor.ends(topic.name)
            if place is not None:
                end = min(end, place[1] - 1) if place[0] == topic.log else end if place[0] > topic.log else low
            return cursor.back(topic.name, low, end, min(limit, READ_MAX))

        return entries_of(topic, (await self._look(topic, work))[::-1])

    async def follow(self, stream: str, after: str = START, limit: int = 1_000) -> AsyncIterator[list[Entry]]:
        """As in the base. A server out of reach at first is an error; one that goes away later is waited for."""
        failures = -1
        while True:
            try:
                entries = await self._read(stream, after, limit, whole=False)
                failures = 0
                if not entries:
                    await self._news(stream, after, WAIT_S)
            except (Unavailable, TooMuch) as error:
                if failures < 0 or self._closed:
                    raise
                failures = await self._pause(stream, failures, error)
                continue
            if entries:
                yield entries
                after = entries[-1].id

    async def _news(self, stream: str, after: str, wait_s: float) -> None:
        """Wait until something may follow `after`, or for a moment."""
        topic = await self._topic(stream)
        if topic is None:
            await asyncio.sleep(min(wait_s, UNMADE_S))
            return
        log, number = place_in(after)
        if not self._tail.is_watched(topic.name):
            _, end = await self._look(topic, lambda cursor: cursor.ends(topic.name))
            self._tail.watch(topic.name, end)
            return  # what came meanwhile is read first
        if log in (0, topic.log):
            await self._tail.beyond(topic.name, number, wait_s)

    async def _pause(self, stream: str, failures: int, error: Exception) -> int:
        if not failures:
            _log.warning("following waits for the server", stream=stream, error=str(error))
        await asyncio.sleep(min(PAUSE_MAX_S, 0.1 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0))
        return failures + 1

    async def find(self, stream: str, ms: int) -> str:
        topic = await self._topic(stream)
        if topic is None or ms <= 0:
            return START

        def work(cursor: Cursor) -> str:
            low, end = cursor.ends(topic.name)
            found = cursor.time_to_offset(topic.name, min(ms, 2**62)) if low < end else -1
            rows = cursor.back(topic.name, low, end if found < 0 else found, 1)
            return topic.position(rows[-1].offset) if rows else START

        return await self._look(topic, work)

    async def close(self) -> None:
        self._closed = True
        self._tail.close()
        lanes = [lane for lane, _ in self._reads.values()]
        if self._lane_of_topics is not None:
            lanes.append(self._lane_of_topics)
        closing = [lane.close() for lane in lanes] + [writer.close() for writer in self._writers.values()]
        await asyncio.gather(*closing)
        self._heights.close()


def nothing(name: str, after: str) -> list[Entry]:
    """What a stream that does not exist holds after a position."""
    if after != START:
        raise PositionLost(f"there is no {name} any more: it is not the log it was, read it anew", first=START)
    return []


def newest(cursor: Cursor, topic: Topic) -> int:
    """Where a reader of everything stands: behind the newest entry, or behind what was trimmed."""
    low, end = cursor.ends(topic.name)
    seen = topic.id, low, end
    known = cursor.newest.get(topic.name)
    if known is None or known[0] != seen:
        rows = cursor.back(topic.name, low, end, 1)
        known = seen, rows[-1].offset + 1 if rows else low
        cursor.newest[topic.name] = known
    return known[1]


def read(cursor: Cursor, topic: Topic, after: str, limit: int) -> list[Row]:
    """Records after a position, or `PositionLost`."""
    log, number = place_in(after)
    if after != START and log != topic.log:
        low, _ = cursor.ends(topic.name)
        raise PositionLost(f"{topic.name} is not the log that {after} is of: read it anew", first=topic.after(low))
    try:
        rows = cursor.read(topic.name, number, max(1, limit))
    except OutOfRange:
        low, end = cursor.ends(topic.name)
        where = f"was trimmed up to {low}, past" if number < low else f"ends at {end}, before"
        raise PositionLost(f"{topic.name} {where} {number}: go on from there", first=topic.after(low)) from None
    return rows[:limit]


def _translated(topic: Topic, cursor: Cursor, run: Callable[[Cursor], T]) -> T:
    try:
        return run(cursor)
    except Missing:
        raise Unavailable(f"{topic.name} is made anew just now: try again") from None
    except OutOfRange:
        raise Unavailable(f"{topic.name} was trimmed while it was read: try again") from None
