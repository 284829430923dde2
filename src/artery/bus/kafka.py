"""The bus in Kafka: what people's commands and the trimmer need of it."""

from collections.abc import Mapping, Sequence

from confluent_kafka import TopicPartition

from artery.bus.base import DEAD, START, GroupState, StreamState, Trimmed
from artery.bus.kafka_cursor import Cursor
from artery.bus.kafka_entries import ENTRY_MAX_BYTES, fields_of, records_of
from artery.bus.kafka_group import state_of
from artery.bus.kafka_groups import KafkaGroups
from artery.bus.kafka_index import Index
from artery.bus.kafka_notes import Notes
from artery.bus.kafka_server import CALL_S
from artery.bus.kafka_state import Held
from artery.bus.kafka_streams import FIRST_S
from artery.bus.kafka_thread import Lane
from artery.bus.kafka_topics import Topic, Topics, place_in
from artery.bus.kafka_transactions import Record, Transactions
from artery.bus.kafka_writer import EPOCH, now_ms
from artery.bus.letters import again, entry_in, stream_of
from artery.bus.sqlite_schema import check_name
from artery.errors import BadInput

COUNT_S = 60.0
"""How long entries may be counted: the first time, all of them are read."""
COUNT_PAGE = 10_000
LOST = "lost:"
COUNTED = "counted:"
"""Up to where the lost entries of a stream are counted: a trim that failed half way must count none of them twice."""
REQUEUED = "requeued:"
_TIME_MAX_MS = 2**53


class KafkaBus(KafkaGroups):
    """Streams as topics (`md_stream.trade`), an entry as a record: its fields as JSON, keyed by `provider|coin`.

    What an ack of `append` means: the transaction is committed on as many brokers as the topic asks for, and readers
    can see it. Whether a broker's disk has it then is the broker's affair; with copies on several brokers, one of them
    can lose its disk. A broker that is silent is said within 3 s; one that answers may take 6 s to make a topic, and a
    minute to count what was never counted. A call that ends with `Unavailable` may or may not have been done.
    """

    def __init__(self, url: str, base: str = "md_stream") -> None:
        super().__init__(url, base)
        self._indexes: dict[str, tuple[Topic, Index]] = {}
        self._counter: tuple[Lane, Cursor] | None = None
        self._requeues = Transactions(self._server, f"{base}.requeue")

    async def _index(self, topic: Topic) -> tuple[Index, int]:
        """Where this stream's entries are, up to its end now, and the oldest offset there is."""
        if self._counter is None:
            cursor = Cursor(self._server, self._heights)
            self._counter = Lane(self._server, "artery-kafka-count"), cursor
            self._counter[0].finally_(cursor.close)
        lane, cursor = self._counter

        def work() -> tuple[Index, int]:
            low, end = cursor.ends(topic.name)
            known = self._indexes.get(topic.stream)
            index = known[1] if known is not None and known[0] == topic and known[1].end <= end else Index(low)
            _extend(cursor, topic.name, index, low, end)
            self._indexes[topic.stream] = topic, index
            return index, low

        return await lane.call(work, within_s=COUNT_S)

    async def group(self, stream: str, group: str) -> GroupState:
        topic = await self._topic(stream)
        held = None if topic is None else await self._held(topic, group)
        if topic is None or held is None:
            raise BadInput(f"{self._topics.name(stream)} has no group {group!r:.60}: call ensure_group first")
        return await self._state(topic, group, held)

    async def groups(self, stream: str) -> list[GroupState]:
        topic = await self._topic(stream)
        if topic is None:
            return []
        held = [(name, await self._held(topic, name)) for name in await self._group_names(topic)]
        return [await self._state(topic, name, one) for name, one in held if one is not None]

    async def _state(self, topic: Topic, group: str, held: Held) -> GroupState:
        if held.log != topic.log:
            held = Held(topic.log, 0)
        index, low = await self._index(topic)
        return state_of(topic, group, held, index.count(max(held.last, low)))

    async def streams(self) -> list[StreamState]:
        names, notes = await self._ask(lambda topics: (topics.streams(), dict(topics.notes.fresh())))
        states = []
        for name in names:
            topic = await self._topic(name)
            if topic is not None:
                states.append(await self._stream(topic, int(notes.get(f"{LOST}{name}", "0"))))
        return states

    async def _stream(self, topic: Topic, lost: int) -> StreamState:
        index, low = await self._index(topic)
        length = index.count(low)
        first = topic.position(index.nth(low, 0)) if length else START
        head = topic.position(index.newest()) if length else topic.after(low)
        return StreamState(topic.stream, length, first, head, lost)

    async def trim(self, stream: str, *, keep: int, required: Sequence[str] = (), keep_at_most: int = 0) -> Trimmed:
        if keep < 0 or keep_at_most < 0:
            raise BadInput("a trim keeps 0 entries or more")
        groups = [check_name(name, "group") for name in required]
        topic = await self._topic(stream)
        if topic is None:
            return Trimmed(0, 0)
        held = [one for one in (await self._images(topic, groups)).values() if one.log == topic.log]
        index, low = await self._index(topic)
        removed, lost, before = plan(index, low, held, keep, keep_at_most)
        if removed:
            if lost:
                await self._ask(lambda topics: self._count_lost(topics, topic, index, held, low, before), FIRST_S)
            await self._ask(lambda topics: self._cut(topics, topic, before), FIRST_S)
            self._tail.forget(topic.name)
            index.forget(before)
        return Trimmed(removed, lost)

    def _count_lost(
        self, topics: Topics, topic: Topic, index: Index, held: Sequence[Held], low: int, before: int
    ) -> None:
        """Note what is about to be lost, unless a trim before this one has."""
        transactions = Transactions(self._server, f"{self._base}.lost")
        notes, name, up_to = topics.make_notes(), f"{LOST}{topic.stream}", f"{COUNTED}{topic.stream}"

        def decide(now: dict[str, str]) -> list[Record]:
            log, counted = place_in(now.get(up_to, START))
            more = needed_in(index, held, max(low, counted if log == topic.log else 0), before)
            total = int(now.get(name, "0")) + more
            return [notes.record(name, str(total)), notes.record(up_to, topic.after(before))] if more else []

        notes.change(transactions, decide)
        transactions.drop()

    def _cut(self, topics: Topics, topic: Topic, before: int) -> None:
        place = TopicPartition(topic.name, 0, before)
        for future in topics.admin.delete_records([place], request_timeout=CALL_S, operation_timeout=CALL_S).values():
            future.result(CALL_S)

    async def count_after(self, stream: str, position: str) -> int:
        log, number = place_in(position)
        topic = await self._topic(stream)
        if topic is None:
            return 0
        index, low = await self._index(topic)
        return 0 if log > topic.log else index.count(max(low, number if log == topic.log else 0))

    async def is_full(self) -> bool:
        """As in the base; a broker's full disk is not helped by a trim."""
        return False

    async def give_up(
        self, stream: str, up_to: str, marks: Sequence[Mapping[str, str]], required: Sequence[str] = ()
    ) -> Trimmed:
        """As in the base; as it is never full, nothing goes."""
        return Trimmed(0, 0)

    async def when(self, stream: str, ids: Sequence[str]) -> list[int]:
        for position in ids:
            place_in(position)
        topic = await self._topic(stream)
        if topic is None or not ids:
            return [0] * len(ids)
        wanted = topic.offsets(ids)

        def work(cursor: Cursor) -> dict[int, int]:
            low, _ = cursor.ends(topic.name)
            return {offset: row.ms for offset, row in cursor.at(topic.name, wanted, low).items()}

        times = await self._look(topic, work)
        return [times.get(offset, 0) if (offset := topic.offset_of(position)) is not None else 0 for position in ids]

    async def fences(self) -> dict[str, int]:
        notes = await self._ask(lambda topics: dict(topics.notes.fresh()))
        return {name.removeprefix(EPOCH): int(epoch) for name, epoch in notes.items() if name.startswith(EPOCH)}

    async def restore(self, stream: str, entries: Sequence[tuple[int, Mapping[str, str]]]) -> list[str]:
        if not all(0 <= ms <= _TIME_MAX_MS for ms, _ in entries):
            raise BadInput("a time is in Unix milliseconds")
        name = self._topics.name(stream)
        records = records_of(
            name, [fields for _, fields in entries], [max(ms, 1) for ms, _ in entries], 2 * ENTRY_MAX_BYTES
        )
        if not records:
            return []
        topic = await self._made(stream)

        def newest_ms(cursor: Cursor) -> int:
            low, end = cursor.ends(topic.name)
            return max((row.ms for row in cursor.back(topic.name, low, end, 1)), default=0)

        return await self._write(stream, rising(records, await self._look(topic, newest_ms)))

    async def requeue(self, dead_id: str) -> str:
        """As in the base. The letter is read before the step that marks it, as letters never change."""
        letter = await self._fields(DEAD, dead_id)
        stream = stream_of(dead_id, letter)
        fields = entry_in(letter, await self._original(stream, letter.get("id", "")))
        topic = await self._made(stream)
        dead = await self._made(DEAD)
        [record] = records_of(topic.name, [fields], [now_ms()])
        oldest = await self._look(dead, lambda cursor: cursor.ends(dead.name)[0])
        name = f"{REQUEUED}{dead_id}"

        def work(topics: Topics) -> int:
            notes = topics.make_notes()

            def decide(now: dict[str, str]) -> list[Record]:
                if name in now:
                    raise again(dead_id)
                return [record, notes.record(name, "1"), *forgotten(notes, now, dead, oldest)]

            return notes.change(self._requeues, decide)[0]

        return topic.position(await self._ask(work, FIRST_S))

    async def _original(self, stream: str, position: str) -> dict[str, str]:
        try:
            return await self._fields(stream, position)
        except BadInput:
            return {}  # the position is one of another log

    async def _fields(self, stream: str, position: str) -> dict[str, str]:
        """The fields of one entry; none if it is not there."""
        place_in(position)
        topic = await self._topic(stream)
        offset = None if topic is None else topic.offset_of(position)
        if topic is None or offset is None:
            return {}
        rows = await self._look(topic, lambda cursor: cursor.at(topic.name, [offset], cursor.ends(topic.name)[0]))
        return {} if offset not in rows else fields_of(rows[offset].value)

    async def requeued(self, dead_ids: Sequence[str]) -> set[str]:
        if not dead_ids:
            return set()
        notes = await self._ask(lambda topics: topics.notes.fresh())
        return {dead_id for dead_id in dead_ids if f"{REQUEUED}{dead_id}" in notes}

    async def close(self) -> None:
        if self._counter is not None:
            await self._counter[0].close()
        if self._lane_of_topics is not None:
            self._lane_of_topics.finally_(self._requeues.drop)
        await super().close()


def _extend(cursor: Cursor, name: str, index: Index, low: int, end: int) -> None:
    """Read on to the end, to learn which offsets are entries."""
    at = max(index.end, low)
    while at < end:
        rows = cursor.read(name, at, COUNT_PAGE)
        full = len(rows) == COUNT_PAGE
        offsets = [row.offset for row in rows if row.offset < end]
        at = rows[-1].offset + 1 if full and len(offsets) == len(rows) else end
        index.add(offsets, at)


def plan(index: Index, low: int, held: Sequence[Held], keep: int, keep_at_most: int) -> tuple[int, int, int]:
    """How many entries a trim removes, how many of them a required group still needs, and up to which offset."""
    length = index.count(low)
    free = min([length - keep, *(index.count(low, one.offset) for one in held)])
    removed = max(0, free, length - keep_at_most if keep_at_most else 0)
    if not removed:
        return 0, 0, low
    before = index.nth(low, removed - 1) + 1
    return removed, needed_in(index, held, low, before), before


def needed_in(index: Index, held: Sequence[Held], low: int, before: int) -> int:
    """How many entries from `low` to before an offset a group still needs."""
    needed = sorted((first, before if last is None else last + 1) for one in held for first, last in one.needed())
    lost, reached = 0, low
    for first, end in needed:
        lost += index.count(max(first, reached), min(end, before))
        reached = max(reached, min(end, before))
    return lost


def rising(records: Sequence[Record], ms: int) -> list[Record]:
    """The same, with no time before the one that comes before it."""
    made = []
    for record in records:
        ms = max(ms, record.ms)
        made.append(record._replace(ms=ms))
    return made


def forgotten(notes: Notes, now: Mapping[str, str], dead: Topic, oldest: int) -> list[Record]:
    """Marks of letters that are gone go too."""
    marks = [name for name in now if name.startswith(REQUEUED)]
    places = {name: place_in(name.removeprefix(REQUEUED)) for name in marks}
    return [notes.record(name, "") for name, (log, at) in places.items() if log != dead.log or at <= oldest]
