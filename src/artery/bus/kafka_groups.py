"""Groups of readers in Kafka: what each was given, and what of it is not acked."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from artery.bus.base import DEAD, START, Entry
from artery.bus.kafka_entries import ENTRY_MAX_BYTES, READ_MAX, records_of
from artery.bus.kafka_group import Reading
from artery.bus.kafka_member import steady_ms
from artery.bus.kafka_server import CALL_S, is_one_of
from artery.bus.kafka_state import Held, read_image
from artery.bus.kafka_streams import FIRST_S, WAIT_S, KafkaStreams, newest
from artery.bus.kafka_topics import Topic, Topics, place_in
from artery.bus.kafka_writer import now_ms
from artery.bus.letters import about
from artery.bus.runs import Run
from artery.bus.sqlite_schema import check_name
from artery.errors import BadInput, PositionLost, Unavailable

TAKEN_S = 0.5
"""How often one who waits asks whether the stream is his now."""
_IN_USE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.ILLEGAL_GENERATION)

T = TypeVar("T")


class KafkaGroups(KafkaStreams):
    """The part of the bus that knows groups. A group is a Kafka group of this stream alone; its committed offset is
    that of the oldest entry not acked, and beside it stands what else was given out.

    One process at a time has a group's stream; the others wait, are given nothing, and get it from the broker when
    that one stops or dies. A group that was there and is gone (its topic was made anew) is made again to be given
    everything, and that is said once, as a lost position. A loss is said once: the group goes on behind it.
    """

    def __init__(self, url: str, base: str = "md_stream") -> None:
        super().__init__(url, base)
        self._readings: dict[tuple[str, str], Reading] = {}
        self._made_groups: set[tuple[str, str]] = set()
        self._joining = asyncio.Lock()

    def _id(self, topic: Topic, group: str) -> str:
        return f"{group}@{topic.name}"

    async def _images(self, topic: Topic, groups: Sequence[str]) -> dict[str, Held]:
        """The groups as the broker knows them; those that were never made are left out."""
        asked = [(group, self._id(topic, group)) for group in groups]

        def work(topics: Topics) -> dict[str, Held]:
            found = {}
            for group, id_ in asked:
                wanted = ConsumerGroupTopicPartitions(id_, [TopicPartition(topic.name, 0)])
                answer = topics.admin.list_consumer_group_offsets(
                    [wanted], require_stable=True, request_timeout=CALL_S
                )[id_].result(CALL_S)
                [part] = answer.topic_partitions
                if part.error is not None:
                    raise KafkaException(part.error)  # which is no word on whether there is such a group
                held = read_image(part.metadata or "")
                if held is not None:
                    found[group] = held
            return found

        return await self._ask(work)

    async def _save(self, topic: Topic, group: str, held: Held) -> bool:
        """Have the broker keep a group's state from outside; False if a process reads for it just now."""
        id_ = self._id(topic, group)
        place = TopicPartition(topic.name, 0, held.offset, metadata=held.image())

        def work(topics: Topics) -> bool:
            wanted = ConsumerGroupTopicPartitions(id_, [place])
            future = topics.admin.alter_consumer_group_offsets([wanted], request_timeout=CALL_S)[id_]
            try:
                error = future.result(CALL_S).topic_partitions[0].error
                if error is not None:
                    raise KafkaException(error)
            except KafkaException as refused:
                if is_one_of(refused, _IN_USE):
                    return False
                raise
            return True

        return await self._ask(work)

    async def ensure_group(self, stream: str, group: str, start: str = START) -> None:
        log, number = place_in(start)
        check_name(group, "group")
        topic = await self._made(stream)
        if not await self._images(topic, [group]):
            held = Held(topic.log, number if log == topic.log else 0)
            if not await self._save(topic, group, held) and not await self._images(topic, [group]):
                raise Unavailable(f"{topic.name} is being read for {group}, which is not made yet: try again")
        self._made_groups.add((stream, group))

    async def _reading(self, stream: str, group: str) -> tuple[Topic, Reading]:
        """This process's part in a group that exists."""
        topic = await self._topic(stream)
        known = self._readings.get((stream, group))
        if topic is not None and known is not None and known.topic_id == topic.id:
            return topic, known
        async with self._joining:  # two members of one process would keep the stream from each other
            known = self._readings.get((stream, group))
            if known is not None and (topic is None or known.topic_id != topic.id):
                del self._readings[stream, group]
                await known.close()
                known = None
            topic = await self._exists(stream, group)
            if known is None:
                known = self._readings[stream, group] = Reading(
                    self._server, self._heights, topic, group, self._id(topic, group)
                )
            return topic, known

    async def _exists(self, stream: str, group: str) -> Topic:
        """The group's topic, or `BadInput` if the group was never made; told once if it was lost."""
        topic = await self._topic(stream)
        if topic is not None and await self._images(topic, [group]):
            self._made_groups.add((stream, group))
            return topic
        if (stream, group) not in self._made_groups:
            raise BadInput(f"{self._topics.name(stream)} has no group {group!r:.60}: call ensure_group first")
        await self.ensure_group(stream, group)
        raise PositionLost(
            f"{self._topics.name(stream)} had lost its group {group}: it begins again with what is there"
        )

    async def _do(
        self,
        stream: str,
        group: str,
        run: Callable[[Topic, Reading], T],
        unheard: Callable[[Topic, Reading, T], None] | None = None,
    ) -> T:
        """Something of a group, on its thread."""
        topic, reading = await self._reading(stream, group)
        undo: Any = None if unheard is None else lambda result: unheard(topic, reading, result)
        return await reading.lane.call(lambda: run(topic, reading), unheard=undo, untold=reading.untold)

    async def read_pending(
        self, stream: str, group: str, consumer: str, after: str = START, limit: int = 100
    ) -> list[Entry]:
        log, number = place_in(after)
        check_name(consumer, "consumer")

        def work(topic: Topic, reading: Reading) -> list[Entry]:
            low = number if log in (0, topic.log) else 0
            own = lambda run: run.consumer == consumer and run.last >= low  # noqa: E731
            return reading.give_again(topic, consumer, own, low, min(limit, READ_MAX))

        return await self._do(stream, group, work)

    async def claim(self, stream: str, group: str, consumer: str, idle_ms: int, limit: int = 100) -> list[Entry]:
        """As in the base; what another *process* holds comes only once the broker has missed that process."""
        check_name(consumer, "consumer")

        def work(topic: Topic, reading: Reading) -> list[Entry]:
            latest = steady_ms() - idle_ms

            def left(run: Run) -> bool:
                return run.consumer != consumer and run.given_ms <= latest

            return reading.give_again(topic, consumer, left, 0, min(limit, READ_MAX))

        return await self._do(stream, group, work)

    async def read_new(
        self, stream: str, group: str, consumer: str, limit: int = 100, wait_ms: int = 0, done: Sequence[str] = ()
    ) -> list[Entry]:
        check_name(consumer, "consumer")
        limit, deadline = min(limit, READ_MAX), time.monotonic() + wait_ms / 1_000

        def work(topic: Topic, reading: Reading) -> tuple[list[Entry], int, Topic]:
            entries, last = reading.read_new(topic, consumer, limit)
            return entries, last, topic

        def undo(topic: Topic, reading: Reading, result: tuple[list[Entry], int, Topic]) -> None:
            reading.unheard(topic, result[0])

        if done:
            await self.ack(stream, group, done)
        if ready := self._read_ready(stream, group, consumer, limit):
            return ready
        while True:
            entries, last, topic = await self._do(stream, group, work, undo)
            left_s = deadline - time.monotonic()
            if entries or limit <= 0 or left_s <= 0:
                return entries
            if last < 0:
                await asyncio.sleep(min(left_s, TAKEN_S))
            else:
                await self._news(stream, topic.after(last), min(left_s, WAIT_S))

    def _read_ready(self, stream: str, group: str, consumer: str, limit: int) -> list[Entry]:
        """A page that was read ahead, if there is one."""
        topic, reading = self._topics.known(stream), self._readings.get((stream, group))
        if topic is None or reading is None or reading.topic_id != topic.id:
            return []
        return reading.read_ready(topic, consumer, limit)

    async def ack(self, stream: str, group: str, ids: Sequence[str]) -> int:
        topic, reading = await self._reading(stream, group)
        loop = asyncio.get_running_loop()

        def asked() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(reading.read_ahead, topic, len(ids))

        return await reading.lane.call(lambda: reading.ack(topic, ids, asked), untold=reading.untold)

    async def ack_up_to(self, stream: str, group: str, position: str) -> None:
        log, number = place_in(position)
        topic = await self._exists(stream, group)
        head = await self._look(topic, lambda cursor: newest(cursor, topic))
        if log > topic.log or (log == topic.log and number > head):
            raise BadInput(f"{topic.name} ends at {topic.after(head)}: {group} cannot be done with {position}")
        if log < topic.log:
            return
        reading = self._readings.get((stream, group))
        if reading is not None and await reading.lane.call(lambda: reading.ack_up_to(number)):
            return
        held = (await self._images(topic, [group]))[group]
        if held.log != topic.log:
            held = Held(topic.log, 0)
        held.ack_up_to(number)
        if not await self._save(topic, group, held):
            raise Unavailable(f"another process reads {topic.name} for {group}: only that one can say what is done")

    async def dead_letter(self, stream: str, group: str, entry: Entry, error: str) -> None:
        """As in the base; only the process that was given the entry can give it up."""
        letter = entry.fields | about(stream, group, entry, error)
        await self._reading(stream, group)
        dead = await self._made(DEAD)
        [record] = records_of(dead.name, [letter], [now_ms()], 2 * ENTRY_MAX_BYTES)
        topic, reading = await self._reading(stream, group)
        await reading.lane.call(
            lambda: reading.dead_letter(topic, entry.id, record), within_s=FIRST_S, untold=reading.untold
        )

    async def _held(self, topic: Topic, group: str) -> Held | None:
        """A group as it is: as this process knows it, if it has the group, else as the broker does."""
        reading = self._readings.get((topic.stream, group))
        if reading is not None and (own := await reading.lane.call(reading.state)) is not None:
            return own
        return (await self._images(topic, [group])).get(group)

    async def _group_names(self, topic: Topic) -> list[str]:
        """Every group of a stream."""
        suffix = f"@{topic.name}"

        def work(topics: Topics) -> list[str]:
            listed = topics.admin.list_consumer_groups(request_timeout=CALL_S).result(CALL_S)
            if listed.errors:
                raise listed.errors[0]
            return [one.group_id for one in listed.valid]

        return sorted(id_.removesuffix(suffix) for id_ in await self._ask(work) if id_.endswith(suffix))

    async def close(self) -> None:
        await asyncio.gather(*(reading.close() for reading in self._readings.values()))
        await super().close()
