"""The leader lock over a store."""

import secrets
import time
from collections.abc import Callable

import msgspec

from artery.errors import BadInput
from artery.live.base import Term
from artery.live.process import Process, this_process
from artery.store.base import Store

DEADLINE = 0.8
"""The part of its TTL after which a holder that could not renew must have stopped."""

_SEEN_MAX = 10_000


class Holder(msgspec.Struct, frozen=True):
    """What the store keeps for a lock; it is never deleted, so that the epoch only rises."""

    token: str
    epoch: int
    expires_ms: int
    ttl_ms: int = 0
    pid: int = 0
    started: str = ""
    host: str = ""

    @property
    def process(self) -> Process:
        return Process(self.pid, self.started, self.host)


class _Look(msgspec.Struct, frozen=True):
    """What was last seen of a lock: its value, and on the monotonic clock when that lapses and when it was seen."""

    value: bytes
    lapses: float
    at: float


class StoreLock:
    """A lock that is a value in the store, changed only by compare-and-set.

    The TTL is by the wall clock, which every process shares; who looks on goes by its monotonic clock from its first
    look, so that a wall clock that is set neither ends a term nor keeps one. Two things end a term before its TTL: a
    release, and the end of the holder's process on this same machine, which is seen by its number and start time. So a
    service that was killed leads again as soon as it is back. Who writes with the epoch of a term that has ended is
    fenced by the bus.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._process = this_process()
        self._seen: dict[str, _Look] = {}

    async def acquire(self, key: str, ttl_s: float = 30.0) -> Term | None:
        before = self._monotonic()
        old = await self._store.get(key)
        holder = _decode(key, old)
        if holder is not None and self._holds(key, holder, old or b""):
            return None
        now_ms = int(self._clock() * 1_000)
        epoch = max(now_ms, 1 if holder is None else holder.epoch + 1)
        token = secrets.token_hex(16)
        if not await self._store.compare_and_set(key, old, self._value(token, epoch, ttl_s)):
            return None
        self._seen.pop(key, None)
        return Term(key, token, epoch, before + DEADLINE * ttl_s)

    async def renew(self, term: Term, ttl_s: float = 30.0) -> Term | None:
        before = self._monotonic()
        old = await self._store.get(term.key)
        holder = _decode(term.key, old)
        if holder is None or holder.token != term.token or before >= term.deadline:
            return None
        if not await self._store.compare_and_set(term.key, old, self._value(term.token, term.epoch, ttl_s)):
            return None
        return msgspec.structs.replace(term, deadline=before + DEADLINE * ttl_s)

    async def release(self, term: Term) -> None:
        old = await self._store.get(term.key)
        holder = _decode(term.key, old)
        if holder is not None and holder.token == term.token:
            free = msgspec.structs.replace(holder, token="", expires_ms=0)
            await self._store.compare_and_set(term.key, old, msgspec.json.encode(free))

    async def close(self) -> None:
        """The store is its owner's to close."""

    def _value(self, token: str, epoch: int, ttl_s: float) -> bytes:
        if not 0 < ttl_s < 1e9:
            raise BadInput(f"a TTL is above zero and below 1e9 seconds, not {ttl_s}")
        ttl_ms, me = int(ttl_s * 1_000), self._process
        expires_ms = int(self._clock() * 1_000) + ttl_ms
        return msgspec.json.encode(Holder(token, epoch, expires_ms, ttl_ms, me.pid, me.started, me.host))

    def _holds(self, key: str, holder: Holder, value: bytes) -> bool:
        """Whether the holder may still think that the lock is its own.

        When a value lapses is judged once, when it is first seen; a value that has changed since the last look was
        written after that look, whatever the wall clock says.
        """
        now, before = self._monotonic(), self._seen.pop(key, None)
        ttl_s, left_s = holder.ttl_ms / 1_000, holder.expires_ms / 1_000 - self._clock()
        lapses = now + min(left_s, ttl_s)
        if before is not None:
            lapses = before.lapses if before.value == value else max(lapses, before.at + ttl_s)
        if len(self._seen) < _SEEN_MAX:
            self._seen[key] = _Look(value, lapses, now)
        return bool(holder.token) and now < lapses and not holder.process.is_dead()


def _decode(key: str, value: bytes | None) -> Holder | None:
    if value is None:
        return None
    try:
        return msgspec.json.decode(value, type=Holder)
    except msgspec.DecodeError as error:
        raise BadInput(f"{key} in the store is not a lock ({error}): delete it, or use another key") from error
