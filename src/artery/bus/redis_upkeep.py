"""What people's commands need of Redis: counts, times, fences, entries of other logs, dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any

from artery.bus import redis_scripts as scripts
from artery.bus.base import DEAD
from artery.bus.letters import again, entry_in, stream_of
from artery.bus.redis_ends import entries_of, full
from artery.bus.redis_groups import RedisGroups
from artery.bus.redis_lag import count, easy
from artery.bus.redis_streams import ENTRY_MAX_BYTES, pack, pack_rows
from artery.errors import BadInput, Unavailable
from artery.store.redis_server import is_full

_TIME_MAX_MS = 2**53


class RedisUpkeep(RedisGroups):
    """The part of the bus that people's commands need."""

    def __init__(self, url: str, base: str = "md_stream") -> None:
        super().__init__(url, base)
        self._requeued = f"{self._base}:meta:requeued"

    async def count_after(self, stream: str, position: str) -> int:
        ends, at = await self._ends(stream), full(position)
        found = easy(ends, at)
        if found is None:
            found = await count(self._link, self._key(stream), ends, at, None)
        if found is None:
            raise Unavailable(f"{self._key(stream)} is too long to be counted from {position}: count from a later one")
        return found

    async def is_full(self) -> bool:
        """As in the base: at `maxmemory`, where nothing may be removed but by us."""
        reply = await self._link.run(scripts.PROBE, (), ())
        if is_full(reply):
            return True
        self._link.answer(reply)
        return False

    async def when(self, stream: str, ids: Sequence[str]) -> list[int]:
        """As in the base; an id of Redis is the time at which it was given."""
        self._key(stream)
        return [int(full(position).split("-")[0]) for position in ids]

    async def fences(self) -> dict[str, int]:
        found: list[str] = await self._link.call("HGETALL", self._epochs)
        return {writer: int(epoch) for writer, epoch in zip(found[::2], found[1::2], strict=True)}

    async def restore(self, stream: str, entries: Sequence[tuple[int, Mapping[str, str]]]) -> list[str]:
        key = self._key(stream)
        if not all(0 <= ms <= _TIME_MAX_MS for ms, _ in entries):
            raise BadInput("a time is in Unix milliseconds")
        heads = [[str(max(ms, 1))] for ms, _ in entries]
        packed = pack_rows([fields for _, fields in entries], heads, 2 * ENTRY_MAX_BYTES)
        if not entries:
            return []
        ids: list[str] = self._link.answer(await self._link.run(scripts.RESTORE, (key,), (packed,)))
        return ids

    async def requeue(self, dead_id: str) -> str:
        """As in the base. The letter is read before the step that marks it, as letters never change."""
        letter = await self._entry(DEAD, dead_id)
        stream = stream_of(dead_id, letter)
        fields = entry_in(letter, await self._original(stream, letter.get("id", "")))
        keys, args = (self._key(stream), self._requeued, self._key(DEAD)), (full(dead_id), pack([fields]))
        reply: Any = await self._link.run(scripts.REQUEUE, keys, args)
        if isinstance(reply, Exception) and str(reply).startswith("AGAIN"):
            raise again(dead_id)
        if isinstance(reply, Exception) and str(reply).startswith("GONE"):
            stream_of(dead_id, None)
        return str(self._link.answer(reply))

    async def _original(self, stream: str, position: str) -> dict[str, str]:
        try:
            return await self._entry(stream, position)
        except BadInput:
            return {}  # the position is one of another log

    async def _entry(self, stream: str, position: str) -> dict[str, str]:
        """The fields of one entry; none if it is not there."""
        at = full(position)
        found = entries_of(await self._link.call("XRANGE", self._key(stream), at, at))
        return found[0].fields if found else {}

    async def requeued(self, dead_ids: Sequence[str]) -> set[str]:
        if not dead_ids:
            return set()
        marks = await self._link.call("ZMSCORE", self._requeued, *map(full, dead_ids))
        return {dead_id for dead_id, mark in zip(dead_ids, marks, strict=True) if mark is not None}
