"""One group of readers of one stream, as this process takes part in it; a thread of its own."""

import threading
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from artery.bus.base import Entry, GroupState
from artery.bus.kafka_cursor import KEEP_FROM, Cursor, Heights, Missing, OutOfRange
from artery.bus.kafka_entries import entries_at, entries_of, entry_of
from artery.bus.kafka_member import Member, steady_ms
from artery.bus.kafka_server import Server
from artery.bus.kafka_state import Held
from artery.bus.kafka_thread import Lane
from artery.bus.kafka_topics import Topic
from artery.bus.kafka_transactions import Record, Transactions
from artery.bus.runs import Run, ranges
from artery.errors import PositionLost, Unavailable

SERVE_S = 0.05
SOON_S = 0.005
"""What was given out is committed when nothing was asked for so long: mostly an ack comes first, and says it too."""


class Reading:
    """What the group's thread does. Nothing is given and nothing acked unless the broker lets this process have it."""

    def __init__(self, server: Server, heights: Heights, topic: Topic, group: str, id_: str) -> None:
        self._group = group
        self.topic_id = topic.id
        self._member = Member(server, topic.name, id_)
        self._lock = self._member.lock
        self._new, self._old = Cursor(server, heights), Cursor(server, heights)
        self._letters = Transactions(server, f"{id_}.dead")
        self._doubt = False
        """It is not known whether the last letter was written."""
        self._unsaid = False
        """Something was given out that the broker does not know of yet."""
        self._owed = False
        """An ack or a loss was to be committed, and it is not known that it was."""
        self._loss: PositionLost | None = None
        """A loss that was found, and of which nobody has heard yet."""
        self._proven: Held | None = None
        """Whose first entries are given and committed. Whoever dies of them is not given them as new ones for ever."""
        self._ready: tuple[Held | None, list[int], list[Entry]] = None, [], []
        """What follows what was given last, read while the broker was busy with an ack."""
        self._fetching = threading.Lock()
        """For whoever reads on: the page ahead is read by the caller's thread while this one waits for the broker."""
        self.lane = Lane(server, "artery-kafka-group", self._rest, SERVE_S)
        for close in (self._last_words, self._member.leave, self._letters.drop, self._old.close, self._close_new):
            self.lane.finally_(close)

    async def close(self) -> None:
        await self.lane.close()

    def _close_new(self) -> None:
        with self._fetching:
            self._new.close()

    def _rest(self) -> None:
        self._member.serve()
        if self._unsaid:
            self._say(wait=False)

    def _last_words(self) -> None:
        if self._unsaid or self._owed:
            self._say()

    def _say(self, *, wait: bool = True) -> None:
        """Have the broker keep the group's state."""
        self._unsaid, self.lane.idle_s = False, SERVE_S
        self._owed = self._owed or wait
        self._member.commit(wait=wait)
        self._owed = self._owed and not wait

    def _given(self, held: Held) -> None:
        """Have the broker keep it soon; at once what was given first."""
        if self._proven is not held:
            self._say()
            self._proven = held
        else:
            self._unsaid, self.lane.idle_s = True, SOON_S

    def held(self) -> Held | None:
        """The group's state, if this process has it already."""
        self._member.serve()
        return self._member.held

    def state(self) -> Held | None:
        """A copy of it."""
        held = self.held()
        with self._lock:
            return None if held is None else Held(held.log, held.last, held.runs)

    def _mine(self, topic: Topic) -> Held | None:
        """The group's state, if this process has or gets it; told once if the log is not the one it was."""
        if self._doubt:
            self._letters.open()  # which ends the transaction of which nobody has heard
            self._doubt = False
        held = self._member.join()
        if held is None and self._member.has:
            self._restart(topic, f"{topic.name} had lost its group {self._group}: it begins again with what is there")
        if held is None:
            return None
        if held.log != topic.log:
            self._restart(topic, f"{topic.name} is not the log that {self._group} has read: it begins again")
        if (lost := self._loss) is not None:
            self._loss = None
            raise lost
        if held.coarse:
            self._refine(topic, held)
        return held

    def _mine_for_sure(self, topic: Topic) -> Held | None:
        """The same; `Unavailable` while the broker has not said whose it is: what is pending may still be ours."""
        held = self._mine(topic)
        if held is None and not self._member.answered:
            raise Unavailable(f"the broker has not said yet who reads {topic.name} for {self._group}: try again")
        return held

    def _restart(self, topic: Topic, why: str) -> None:
        """Begin with what is there, and say so."""
        low, _ = self._old.ends(topic.name)
        self._member.held = Held(topic.log, low)
        raise self._lose(PositionLost(why, first=topic.after(low)))

    def _lose(self, lost: PositionLost) -> PositionLost:
        """A loss to be said, once: the next time, if the broker does not hear of it now."""
        self._loss = lost
        self._say()
        self._loss = None
        return lost

    def untold(self, error: Exception) -> None:
        """Nobody has heard this."""
        if isinstance(error, PositionLost):
            self._loss = error

    def _refine(self, topic: Topic, held: Held) -> None:
        """Find out which offsets of runs that were drawn together are entries."""
        runs: list[Run] = []
        low, end = self._old.ends(topic.name)
        for run in held.runs:
            rows = self._old.back(topic.name, max(low, run.first), min(end, run.last + 1), len(run))
            gone = range(run.first, min(low, run.last + 1))
            there = [row.offset for row in rows]
            runs += [Run(a, b, run.consumer, run.tries, run.given_ms) for a, b in ranges([*gone, *there])]
        with self._lock:
            held.runs, held.coarse = runs, False

    def read_ready(self, topic: Topic, consumer: str, limit: int) -> list[Entry]:
        """What can be given without any wait, in any thread: a whole page, or nothing."""
        with self._lock:
            held, offsets, entries = self._ready
            sure = held is not None and held is self._member.held and held is self._proven and held.log == topic.log
            if held is None or not sure or len(offsets) < limit or limit < KEEP_FROM:
                return []
            self._ready = held, offsets[limit:], entries[limit:]
            held.give(offsets[:limit], consumer, steady_ms())
        self._unsaid, self.lane.idle_s = True, SOON_S
        return entries[:limit]

    def read_new(self, topic: Topic, consumer: str, limit: int) -> tuple[list[Entry], int]:
        """What the group was never given, and the offset from which it goes on (-1: others have the stream)."""
        held = self._mine(topic)
        if held is None:
            return [], -1
        try:
            with self._fetching:
                offsets, entries = self._next(topic, held, limit)
        except OutOfRange:
            return self._out_of_range(topic, held)
        except Missing:
            return [], held.last
        if offsets:
            with self._lock:
                held.give(offsets, consumer, steady_ms())
            self._given(held)
        return entries, held.last

    def _next(self, topic: Topic, held: Held, limit: int) -> tuple[list[int], list[Entry]]:
        """What follows, with what was read before first."""
        (whose, offsets, entries), self._ready = self._ready, (None, [], [])
        if whose is not held:
            offsets, entries = [], []
        if len(offsets) < limit:
            start = offsets[-1] + 1 if offsets else held.last
            rows = self._new.read(topic.name, start, limit - len(offsets))
            return offsets + [row.offset for row in rows], entries + entries_of(topic, rows, 1)
        self._ready = held, offsets[limit:], entries[limit:]
        return offsets[:limit], entries[:limit]

    def read_ahead(self, topic: Topic, limit: int) -> None:
        """Have the next page ready, of the size of the last one, if that takes no wait; in any thread."""
        held = self._member.held
        if held is None or held.log != topic.log or limit < KEEP_FROM or self._ready[1]:
            return
        if self._fetching.acquire(blocking=False):
            try:
                self._fetch_ahead(topic, held, limit)
            except (KafkaException, RuntimeError):  # whoever asks for the page meets the same trouble, and says it
                self._ready = None, [], []
            finally:
                self._fetching.release()

    def _fetch_ahead(self, topic: Topic, held: Held, limit: int) -> None:
        last = held.last
        offsets, values = self._new.read_here(topic.name, last, limit)
        entries = entries_at(topic, offsets, values, 1)
        with self._lock:
            if held.last == last and self._member.held is held:
                self._ready = held, offsets, entries

    def _out_of_range(self, topic: Topic, held: Held) -> tuple[list[Entry], int]:
        """Say a loss, once; of a log that has lost its end, everything that is there is given again."""
        low, end = self._old.ends(topic.name)
        last = held.last
        if low <= last <= end:
            return [], last  # it came back meanwhile
        with self._lock:
            held.runs = held.runs if last < low else []
            held.last = low
        where = f"was trimmed up to {low}" if last < low else f"ends at {end}, it is not the log it was:"
        why = f"{topic.name} {where} before {self._group} had read past {last}"
        raise self._lose(PositionLost(why, first=topic.after(low)))

    def unheard(self, topic: Topic, entries: Sequence[Entry]) -> None:
        """Nobody has heard of these: they come again as new ones, if nothing else was given since."""
        held = self._member.held
        if held is not None and held.log == topic.log:
            with self._lock:
                held.take_back(topic.offsets([entry.id for entry in entries]))
                self._ready = None, [], []
            self._given(held)

    def give_again(
        self, topic: Topic, consumer: str, which: Callable[[Run], bool], low: int, limit: int
    ) -> list[Entry]:
        """Pending entries once more, with those that were trimmed as empty ones."""
        held = self._mine(topic)
        if held is None or limit <= 0:
            return []
        with self._lock:
            given = held.give_again(which, low, limit, consumer, steady_ms())
        if not given:
            return []
        self._say()
        first, _ = self._old.ends(topic.name)
        rows = self._old.at(topic.name, [offset for offset, _ in given], first)
        return [entry_of(topic, offset, rows.get(offset), tries) for offset, tries in given]

    def ack(self, topic: Topic, ids: Sequence[str], asked: Callable[[], None]) -> int:
        """How many were pending. `asked` is called when only the broker's answer is missing."""
        held = self._mine_for_sure(topic)
        if held is None:
            return 0
        offsets = topic.offsets(ids)
        with self._lock:
            done = held.ack(offsets)
        if done or self._owed:  # an ack that failed half way is here, and not with the broker
            asked()
            self._say()
        return done

    def ack_up_to(self, last: int) -> bool:
        """Whether this process has the group, and so could say it."""
        held = self.held()
        if held is None:
            return False
        with self._lock:
            held.ack_up_to(last)
            self._ready = None, [], []
        self._say()
        return True

    def dead_letter(self, topic: Topic, id_: str, letter: Record) -> None:
        """Write the letter and ack its entry in one transaction; nothing if it is not pending in this process."""
        held = self._mine_for_sure(topic)
        if held is None:
            return
        with self._lock:
            pending = held.ack(topic.offsets([id_]))
        if not pending:
            return
        try:
            self._letters.write([letter], self._member.place(), self._member.metadata())
        except BaseException:
            self._doubt = True
            self._member.forget()
            raise


def state_of(topic: Topic, group: str, held: Held, lag: int) -> GroupState:
    """What people are told of a group."""
    oldest = topic.position(held.runs[0].first) if held.runs else ""
    return GroupState(group, lag, held.pending, topic.after(held.last), oldest)
