"""The bus in Redis Streams, shared with any other client that knows the streams' names and fields."""

from collections.abc import Mapping, Sequence
from typing import Any

from artery.bus import redis_scripts as scripts
from artery.bus.base import FEED, GroupState, StreamState, Trimmed
from artery.bus.redis_ends import Ends, ends_of, full, is_missing, named, short
from artery.bus.redis_lag import Mark, count, easy
from artery.bus.redis_streams import pack
from artery.bus.redis_upkeep import RedisUpkeep
from artery.bus.sqlite_schema import check_name
from artery.errors import BadInput, Unavailable

TRIM_PAGE = 200
TRIM_ROUNDS_MAX = 100_000
SCAN_ROUNDS_MAX = 10_000
COUNTS_MAX = 5


class RedisBus(RedisUpkeep):
    """Streams as Redis Streams (`md_stream:trade`), their fields as given; positions are Redis's ids.

    What an ack of `append` means: the entries are in the server's memory and in its append-only file's buffer, which
    it writes before it serves the next round of clients and syncs once a second (`appendfsync everysec`). A killed
    server loses nothing that was written; a machine that loses power can lose about the last second, and a server that
    is killed while a sync is under way what waits for that. `appendfsync always` closes both, at the price of a sync an
    append. Without the append-only file everything since the last dump is lost: `check_redis` says so.

    Every call ends within 3 s. One that ends with `Unavailable` may or may not have been done.
    """

    def __init__(self, url: str, base: str = "md_stream") -> None:
        super().__init__(url, base)
        self._marks: dict[tuple[str, str], Mark] = {}

    async def group(self, stream: str, group: str) -> GroupState:
        for state in await self._states(stream, group):
            return state
        raise BadInput(f"{self._key(stream)} has no group {group!r:.60}: call ensure_group first")

    async def groups(self, stream: str) -> list[GroupState]:
        return await self._states(stream)

    async def _states(self, stream: str, only: str | None = None) -> list[GroupState]:
        key = self._key(stream)
        reply = (await self._link.calls([("XINFO", "GROUPS", key)]))[0]
        if is_missing(reply):
            return []
        names = sorted(said["name"] for said in map(named, self._link.answer(reply)))
        chosen = [name for name in names if only in (None, name)]
        pending = [("XPENDING", key, name) for name in chosen]
        ends, (groups, *held) = await self._look(stream, ("XINFO", "GROUPS", key), *pending)
        if is_missing(groups):
            return []
        last = {said["name"]: said["last-delivered-id"] for said in map(named, self._link.answer(groups))}
        found = [(name, about) for name, about in zip(chosen, held, strict=True) if name in last]
        return [await self._state(stream, ends, name, last[name], about) for name, about in found]

    async def _state(self, stream: str, ends: Ends, name: str, last: str, pending: Any) -> GroupState:
        size, oldest = self._link.answer(pending)[:2]
        lag = await self._lag(stream, ends, name, last)
        return GroupState(name, lag, size, short(last), oldest or "")

    async def _lag(self, stream: str, ends: Ends, name: str, last: str) -> int:
        key = self._key(stream)
        for _ in range(COUNTS_MAX):
            lag = easy(ends, last)
            if lag is None:
                lag = await count(self._link, key, ends, last, self._marks.get((stream, name)))
                now = await self._ends(stream)
                if lag is None or now.removed != ends.removed:  # the beginning moved while it was counted
                    ends = now
                    continue
            self._marks[stream, name] = Mark(last, ends.added - lag)
            return lag
        raise Unavailable(f"{key} changes faster than the lag of {name} can be counted: ask again later")

    async def streams(self) -> list[StreamState]:
        names = await self._names()
        states = []
        for name in names:
            info, trimmed, lost = await self._link.atomic(
                [
                    ("XINFO", "STREAM", self._key(name)),
                    ("HGET", self._trimmed, name),
                    ("HGET", self._lost, name),
                ]
            )
            if not is_missing(info):
                ends = ends_of(self._link.answer(info), trimmed)
                states.append(StreamState(name, ends.length, short(ends.first), short(ends.head), int(lost or 0)))
        return states

    async def _names(self) -> list[str]:
        """Every stream of the base, whoever made it."""
        found: set[str] = set()
        cursor, prefix = "0", f"{self._base}:"
        for _ in range(SCAN_ROUNDS_MAX):
            cursor, keys = await self._link.call(
                "SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", 1_000, "TYPE", "stream"
            )
            found.update(key.removeprefix(prefix) for key in keys)
            if cursor == "0":
                break
        return sorted(name for name in found if ":" not in name)

    async def trim(self, stream: str, *, keep: int, required: Sequence[str] = (), keep_at_most: int = 0) -> Trimmed:
        if keep < 0 or keep_at_most < 0:
            raise BadInput("a trim keeps 0 entries or more")
        keys = (self._key(stream), self._trimmed, self._lost)
        groups = [check_name(name, "group") for name in required]
        removed, lost = 0, 0
        for _ in range(TRIM_ROUNDS_MAX):  # a little at a time, so that appends are never held up for long
            args = (stream, keep, keep_at_most, TRIM_PAGE, *groups)
            gone, needed, more = self._link.answer(await self._link.run(scripts.TRIM, keys, args))
            removed, lost = removed + gone, lost + needed
            if not more:
                break
        return Trimmed(removed, lost)

    async def give_up(
        self, stream: str, up_to: str, marks: Sequence[Mapping[str, str]], required: Sequence[str] = ()
    ) -> Trimmed:
        keys = (self._key(stream), self._trimmed, self._lost, self._key(FEED))
        args = (stream, full(up_to), pack(marks), *(check_name(name, "group") for name in required))
        removed, lost = self._link.answer(await self._link.run(scripts.GIVE_UP, keys, args))
        return Trimmed(removed, lost)
