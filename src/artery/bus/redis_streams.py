"""Streams in Redis: what is appended, read, followed and found."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from artery.bus import redis_scripts as scripts
from artery.bus.base import START, Entry
from artery.bus.redis_ends import Ends, ends_of, entries_of, full, is_missing, page, short
from artery.bus.sqlite_schema import check_base, table_of
from artery.errors import BadInput, Fenced, TooMuch, Unavailable
from artery.store.redis_link import Link
from artery.telemetry import logger

APPEND_MAX = 20_000
APPEND_MAX_BYTES = 64 * 1024 * 1024
ENTRY_MAX_BYTES = 1024 * 1024
READ_MAX = 10_000
FIELDS_MAX = 3_000
"""Fields of an entry; Lua cannot pass on many more at once."""
WAIT_MS = 1_000
"""How long one wait at the server may last, so that a dead server is noticed."""
PAUSE_MAX_S = 2.0
_EPOCH_MAX = 2**63 - 1

_encode = msgspec.msgpack.Encoder().encode
_log = logger("bus")


def pack(entries: Sequence[Mapping[str, str]], entry_max_bytes: int = ENTRY_MAX_BYTES) -> bytes:
    """Entries as one argument of a script, or `BadInput`."""
    return pack_rows(entries, [], entry_max_bytes)


def pack_rows(
    entries: Sequence[Mapping[str, str]], heads: Sequence[list[str]], entry_max_bytes: int = ENTRY_MAX_BYTES
) -> bytes:
    """The same, each with something in front of its fields, if `heads` are given."""
    if len(entries) > APPEND_MAX:
        raise BadInput(f"an append has at most {APPEND_MAX} entries, not {len(entries)}: split it")
    rows = [[text for pair in entry.items() for text in pair] for entry in entries]
    try:
        for row in rows:
            "".join(row)  # the quickest way to find what is not a string
        packed = _encode(rows)
        longest = max(len(_encode(row)) for row in rows) if len(packed) > entry_max_bytes else 0
    except (TypeError, ValueError) as error:
        raise BadInput(f"an entry maps text to text ({error})") from error
    if not all(rows):
        raise BadInput("an entry has at least one field")
    if max(map(len, rows), default=0) > 2 * FIELDS_MAX:
        raise BadInput(f"an entry has at most {FIELDS_MAX} fields")
    if longest > entry_max_bytes:
        raise BadInput(f"an entry has at most {entry_max_bytes} bytes, not {longest}")
    if len(packed) > APPEND_MAX_BYTES:
        raise BadInput(f"an append has at most {APPEND_MAX_BYTES} bytes: split it")
    return _encode([head + row for head, row in zip(heads, rows, strict=True)]) if heads else packed


class RedisStreams:
    """The part of the bus that knows no groups. Positions are Redis's own ids, which rise with the wall clock."""

    def __init__(self, url: str, base: str = "md_stream") -> None:
        self._base = check_base(base)
        self._link = Link(url, "ART_BUS_URL", text=True)
        # No stream's name has a colon in it, so these keys are nobody else's.
        self._epochs, self._trimmed, self._lost = (f"{base}:meta:{what}" for what in ("epochs", "trimmed", "lost"))

    def _key(self, stream: str) -> str:
        return table_of(self._base, stream)

    async def append(
        self, stream: str, entries: Sequence[Mapping[str, str]], *, writer: str = "", epoch: int = 0
    ) -> list[str]:
        key = self._key(stream)
        if epoch and not writer:
            raise BadInput("an epoch belongs to a writer: name it")
        if not 0 <= epoch <= _EPOCH_MAX:
            raise BadInput(f"an epoch is from 0 to {_EPOCH_MAX}, not {epoch}")
        packed = pack(entries)
        reply = await self._link.run(scripts.APPEND, (key, self._epochs), (writer, str(epoch), packed))
        if isinstance(reply, Exception) and str(reply).startswith("FENCED"):
            raise Fenced(f"{writer} writes with epoch {str(reply).split()[1]} now; epoch {epoch} must stop")
        ids: list[str] = self._link.answer(reply)
        return ids

    async def head(self, stream: str) -> str:
        return short((await self._ends(stream)).head)

    async def _ends(self, stream: str) -> Ends:
        return (await self._look(stream))[0]

    async def _look(self, stream: str, *commands: tuple[Any, ...]) -> tuple[Ends, list[Any]]:
        """The stream's ends and the replies of some commands, of one moment."""
        first = (("XINFO", "STREAM", self._key(stream)), ("HGET", self._trimmed, stream))
        info, trimmed, *replies = await self._link.atomic((*first, *commands))
        if not is_missing(info):
            self._link.answer(info)
        return ends_of(info, trimmed), replies

    async def read(self, stream: str, after: str = START, limit: int = 1_000) -> list[Entry]:
        key, at = self._key(stream), full(after)
        limit = max(0, min(limit, READ_MAX))
        ends, replies = await self._look(stream, ("XRANGE", key, at, "+", "COUNT", limit + 1))
        return entries_of(page(key, ends, at, self._link.answer(replies[0]), limit))

    async def read_back(self, stream: str, limit: int, before: str = "") -> list[Entry]:
        if limit <= 0:
            return []
        end = f"({full(before)}" if before else "+"
        if end == "(0-0":
            return []
        reply = await self._link.call("XREVRANGE", self._key(stream), end, "-", "COUNT", min(limit, READ_MAX))
        return entries_of(reply)

    async def follow(self, stream: str, after: str = START, limit: int = 1_000) -> AsyncIterator[list[Entry]]:
        """As in the base. A server out of reach at first is an error; one that goes away later is waited for."""
        failures = -1
        while True:
            try:
                entries = await self.read(stream, after, limit)
                failures = 0
                if not entries:
                    await self._news(stream, after)
            except (Unavailable, TooMuch) as error:
                if failures < 0:
                    raise
                failures = await self._pause(stream, failures, error)
                continue
            if entries:
                yield entries
                after = entries[-1].id

    async def _news(self, stream: str, after: str) -> None:
        """Wait until something follows `after`, or for a moment."""
        command = ("XREAD", "COUNT", 1, "BLOCK", WAIT_MS, "STREAMS", self._key(stream), full(after))
        self._link.answer(await self._link.wait(WAIT_MS, *command))

    async def _pause(self, stream: str, failures: int, error: Exception) -> int:
        if not failures:
            _log.warning("following waits for the server", stream=stream, error=str(error))
        await asyncio.sleep(min(PAUSE_MAX_S, 0.1 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0))
        return failures + 1

    async def find(self, stream: str, ms: int) -> str:
        if ms <= 0:
            return START
        at = f"{min(ms, 2**63)}-0"
        ends, replies = await self._look(stream, ("XREVRANGE", self._key(stream), f"({at}", "-", "COUNT", 1))
        found = self._link.answer(replies[0])
        if found:
            return str(found[0][0])
        # All that is known of what was trimmed is the newest, and that only if it was our trimmer.
        exact = ends.removed and ends.removed == ends.trimmed_removed
        return ends.trimmed if exact and int(ends.trimmed.split("-")[0]) < ms else START

    async def close(self) -> None:
        await self._link.close()
