"""Groups of readers in Redis: what each was given, and what of it is not acked."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from artery.bus import redis_scripts as scripts
from artery.bus.base import DEAD, START, Entry, place
from artery.bus.letters import about
from artery.bus.redis_ends import Ends, check_group, entries_of, full, named
from artery.bus.redis_streams import ENTRY_MAX_BYTES, READ_MAX, WAIT_MS, RedisStreams, pack
from artery.bus.sqlite_schema import check_name
from artery.errors import BadInput, PositionLost

ACK_MAX = 10_000
CLAIM_MAX = 1_000
CLAIM_PAGES_MAX = 50
DOUBT_S = 2.0
FORGOTTEN_MS = 24 * 3_600 * 1_000
"""A consumer's name that holds nothing and was not heard of for so long is forgotten when the group is taken up."""
PENDING_PAGE = 10_000


class _Hand:
    """What this process knows of one consumer."""

    def __init__(self, stream: str, key: str, group: str, consumer: str) -> None:
        self.stream, self.key, self.group, self.consumer = stream, key, group, consumer
        self.given = START
        self.held: list[Entry] = []
        """Given out by the server in the step in which a loss was found, and not taken back; handed over afterwards."""
        self.doubt = False
        """A reply was not heard: the server may have given out entries that nobody saw, or may do so yet."""
        self.seen: set[str] = set()
        """What was handed over since then, or while a call is under way that may yet come to that."""
        self.doubt_ends: float | None = None
        self.under_way = 0

    @contextmanager
    def asking(self, given: str | None = None) -> Iterator[None]:
        """What is asked in here is in doubt, from `given` on, if its reply is not heard."""
        given = given or self.given
        self.under_way += 1
        try:
            yield
        except BaseException:
            self.given, self.doubt, self.doubt_ends = min(given, self.given, key=place), True, None
            raise
        finally:
            self.under_way -= 1
            self._forget_seen()

    def hand_over(self, entries: list[Entry]) -> list[Entry]:
        """Give the caller what is new."""
        if entries and not self.doubt:
            self.given = entries[-1].id
        return self.show(entries)

    def show(self, entries: list[Entry]) -> list[Entry]:
        """Give the caller entries, of any age."""
        if self.doubt or self.under_way:
            self.seen.update(entry.id for entry in entries)
        return entries

    def _forget_seen(self) -> None:
        if not self.doubt and not self.under_way:
            self.seen = set()

    def nothing_unheard(self, now: float) -> None:
        """A server that answers has soon done all that it was ever asked."""
        self.doubt_ends = self.doubt_ends or now + DOUBT_S
        if now >= self.doubt_ends:
            self.given = max(self.seen, key=place, default=self.given)
            self.doubt, self.doubt_ends = False, None
            self._forget_seen()


class RedisGroups(RedisStreams):
    """The part of the bus that knows groups; any other client of the same streams may share them.

    A group that was there and is gone (a server that came back empty) is made again to be given everything, and that
    is said once, as a lost position. A loss is said once: the group goes on behind it.
    """

    def __init__(self, url: str, base: str = "md_stream") -> None:
        super().__init__(url, base)
        self._known: set[tuple[str, str]] = set()
        self._hands: dict[tuple[str, str, str], _Hand] = {}
        self._scanned: dict[tuple[str, str], str] = {}
        self._unsaid: dict[tuple[str, str], PositionLost] = {}
        """Losses that were found, and not said yet."""

    async def ensure_group(self, stream: str, group: str, start: str = START) -> None:
        key = self._key(stream)
        command = ("XGROUP", "CREATE", key, check_name(group, "group"), full(start), "MKSTREAM")
        reply = (await self._link.calls([command]))[0]
        if not str(reply).startswith("BUSYGROUP"):
            self._link.answer(reply)
        self._link.answer(await self._link.run(scripts.FORGET_CONSUMERS, (key,), (group, FORGOTTEN_MS)))
        self._known.add((key, group))

    async def _checked(self, key: str, group: str, reply: Any) -> Any:
        """The reply of a group's command, unless there is no such group."""
        if not (isinstance(reply, Exception) and str(reply).startswith(("NOGROUP", "UNBLOCKED"))):
            self._link.answer(reply)
            self._known.add((key, group))
            return reply
        if (key, group) not in self._known:
            raise BadInput(f"{key} has no group {group!r:.60}: call ensure_group first") from None
        lost = PositionLost(f"{key} had lost its group {group}: it begins again with what is there")
        with self._to_be_said(key, group, lost):
            made = (await self._link.calls([("XGROUP", "CREATE", key, group, "0", "MKSTREAM")]))[0]
            if not str(made).startswith("BUSYGROUP"):  # another consumer may have been quicker
                self._link.answer(made)
        raise lost

    @contextmanager
    def _to_be_said(self, key: str, group: str, lost: PositionLost) -> Iterator[None]:
        """If what is done in here ends without an answer, the loss is said by the next read."""
        try:
            yield
        except BaseException:
            self._unsaid[key, group] = lost
            raise

    def _hand(self, stream: str, group: str, consumer: str) -> _Hand:
        known = self._hands.get((stream, group, consumer))
        if known is None:
            known = _Hand(stream, self._key(stream), group, check_name(consumer, "consumer"))
            self._hands[stream, group, consumer] = known
        return known

    async def read_pending(
        self, stream: str, group: str, consumer: str, after: str = START, limit: int = 100
    ) -> list[Entry]:
        key, at = self._key(stream), full(after)
        if limit <= 0:
            return []
        limit = min(limit, READ_MAX)
        given, held = await self._link.atomic(
            [
                ("XREADGROUP", "GROUP", group, consumer, "COUNT", limit, "STREAMS", key, at),
                ("XPENDING", key, group, f"({at}", "+", limit, consumer),
            ]
        )
        await self._checked(key, group, given)
        return entries_of(given[0][1], [tries for _, _, _, tries in self._link.answer(held)])

    async def read_new(
        self, stream: str, group: str, consumer: str, limit: int = 100, wait_ms: int = 0, done: Sequence[str] = ()
    ) -> list[Entry]:
        """As in the base. After a call whose reply was not heard, what it may have given out comes first."""
        hand, limit = self._hand(stream, group, consumer), min(limit, READ_MAX)
        deadline = time.monotonic() + wait_ms / 1_000
        if done and (hand.held or hand.doubt or limit <= 0 or len(done) > ACK_MAX):
            await self.ack(stream, group, done)
            done = ()
        if lost := self._unsaid.pop((hand.key, group), None):
            raise lost
        while True:
            entries = await self._unheard(hand, limit) or (await self._give(hand, limit, done) if limit > 0 else [])
            done = ()
            left_ms = int((deadline - time.monotonic()) * 1_000)
            if not entries and left_ms > 0 and limit > 0:
                entries = await self._wait(hand, limit, min(left_ms, WAIT_MS))
            if entries or left_ms <= 0:
                return hand.hand_over(entries)

    async def _unheard(self, hand: _Hand, limit: int) -> list[Entry]:
        if hand.held and limit > 0:
            entries, hand.held = hand.held[:limit], hand.held[limit:]
            return entries
        if not hand.doubt or limit <= 0 or hand.under_way:
            return []  # what a call that is under way is given now is not to be taken for unheard
        command = ("XPENDING", hand.key, hand.group, f"({full(hand.given)}", "+", PENDING_PAGE, hand.consumer)
        held = await self._checked(hand.key, hand.group, (await self._link.calls([command]))[0])
        unseen = [(id_, tries) for id_, _, _, tries in held if id_ not in hand.seen][:limit]
        if hand.under_way:
            return []
        if not unseen:
            hand.nothing_unheard(time.monotonic())
            return []
        rows = await self._link.calls([("XRANGE", hand.key, id_, id_) for id_, _ in unseen])
        found = [self._link.answer(row) or [(id_, None)] for row, (id_, _) in zip(rows, unseen, strict=True)]
        return entries_of([row[0] for row in found], [tries for _, tries in unseen])

    async def _give(self, hand: _Hand, limit: int, done: Sequence[str]) -> list[Entry]:
        """What the group was never given, unless some of it is gone; what is done is acked first."""
        key = hand.key
        acks = [("XACK", key, hand.group, *map(full, done))] if done else []
        command = ("XREADGROUP", "GROUP", hand.group, hand.consumer, "COUNT", limit, "STREAMS", key, ">")
        with hand.asking():
            ends, (*acked, groups, reply) = await self._look(hand.stream, *acks, ("XINFO", "GROUPS", key), command)
            for answer in acked:
                self._link.answer(answer)
        await self._checked(key, hand.group, reply)
        entries = _first_given(reply)
        said = next(said for said in map(named, groups) if said["name"] == hand.group)
        last = said["last-delivered-id"]
        try:
            check_group(key, ends, hand.group, last, said["entries-read"])
        except PositionLost as lost:
            with self._to_be_said(key, hand.group, lost):
                await self._take_back(hand, entries, last, ends)
            raise
        return entries

    async def _take_back(self, hand: _Hand, entries: list[Entry], last: str, ends: Ends) -> None:
        """A loss is said before anything that follows it is given out."""
        ids = [entry.id for entry in entries]
        args = (hand.group, ids[-1] if ids else last, ends.begin, ends.removed, *ids)
        with hand.asking():
            taken = self._link.answer(await self._link.run(scripts.TAKE_BACK, (hand.key,), args))
        hand.held = [] if taken else entries

    async def _wait(self, hand: _Hand, limit: int, wait_ms: int) -> list[Entry]:
        """What comes within some time; nothing can be lost, as there was nothing a moment ago."""
        command = ("XREADGROUP", "GROUP", hand.group, hand.consumer, "COUNT", limit, "BLOCK", wait_ms, "STREAMS")
        with hand.asking():
            reply = await self._link.wait(wait_ms, *command, hand.key, ">")
        return _first_given(await self._checked(hand.key, hand.group, reply))

    async def ack(self, stream: str, group: str, ids: Sequence[str]) -> int:
        key, done = self._key(stream), 0
        for at in range(0, len(ids), ACK_MAX):
            done += await self._link.call("XACK", key, group, *map(full, ids[at : at + ACK_MAX]))
        if not done and (key, group) not in self._known:
            await self._checked(key, group, (await self._link.calls([("XPENDING", key, group)]))[0])
        return done

    async def ack_up_to(self, stream: str, group: str, position: str) -> None:
        key = self._key(stream)
        reply = await self._link.run(scripts.ACK_UP_TO, (key,), (group, full(position)))
        if isinstance(reply, Exception) and str(reply).startswith("BEYOND"):
            raise BadInput(f"{key} ends at {str(reply).split()[1]}: {group} cannot be done with {position}")
        await self._checked(key, group, reply)

    async def claim(self, stream: str, group: str, consumer: str, idle_ms: int, limit: int = 100) -> list[Entry]:
        """As in the base; where much is pending, the scan goes on where the last one ended, and around once."""
        hand, cursor = self._hand(stream, group, consumer), self._scanned.pop((stream, group), "-")
        around = cursor == "-"
        for page in range(CLAIM_PAGES_MAX if limit > 0 else 0):
            cursor, found = await self._take_over(hand, (idle_ms, min(limit, CLAIM_MAX), cursor))
            if found:
                if page:
                    self._scanned[stream, group] = cursor
                found.sort(key=lambda entry: place(entry[0]))
                return hand.show(entries_of([entry[:2] for entry in found], [entry[2] for entry in found]))
            if cursor == "-" and around:
                return []
            around = around or cursor == "-"
        self._scanned[stream, group] = cursor
        return []

    async def _take_over(self, hand: _Hand, args: tuple[int, int, str]) -> Any:
        with hand.asking(START):  # what it takes over may be older than anything given so far
            reply = await self._link.run(scripts.CLAIM, (hand.key,), (hand.group, hand.consumer, *args))
        return await self._checked(hand.key, hand.group, reply)

    async def dead_letter(self, stream: str, group: str, entry: Entry, error: str) -> None:
        key = self._key(stream)
        letter = entry.fields | about(stream, group, entry, error)
        packed = pack([letter], entry_max_bytes=2 * ENTRY_MAX_BYTES)
        keys, args = (key, self._key(DEAD)), (group, full(entry.id), packed)
        await self._checked(key, group, await self._link.run(scripts.DEAD_LETTER, keys, args))


def _first_given(reply: Any) -> list[Entry]:
    """What XREADGROUP gave for the first time."""
    if not reply:
        return []
    given = reply[0][1]
    return entries_of(given, [1] * len(given))
