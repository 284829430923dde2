"""What pub/sub and the leader lock owe their callers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True):
    """One event on its way to sessions; `data` is the event's JSON, encoded once for all of them.

    `position` is empty where the event has none (a foreign producer's).
    """

    channel: str
    series: str
    position: str
    data: bytes


class Subscription(Protocol):
    """What one subscriber has asked for; messages arrive in the order in which they were published."""

    async def add(self, channels: Sequence[str]) -> None: ...

    async def remove(self, channels: Sequence[str]) -> None: ...

    def __aiter__(self) -> AsyncIterator[list[Message]]:
        """Batches of messages; a subscriber that falls too far behind loses the oldest, and `dropped` says how many."""
        ...

    @property
    def dropped(self) -> int: ...


class PubSub(Protocol):
    """Publishing never waits for a subscriber. Nothing is kept: who is not there does not get it."""

    async def publish(self, messages: Sequence[Message]) -> None: ...

    def subscribe(self) -> AbstractAsyncContextManager[Subscription]: ...

    async def close(self) -> None: ...


class Term(msgspec.Struct, frozen=True):
    """A lock that was won. `epoch` is higher than all before it, also across restarts of the backend."""

    key: str
    token: str
    epoch: int
    deadline: float
    """On the monotonic clock: past it, whoever holds the term must have stopped."""


class LeaderLock(Protocol):
    """At most one holder at a time; a holder that dies is followed after the TTL at the latest."""

    async def acquire(self, key: str, ttl_s: float = 30.0) -> Term | None:
        """The term, or None while another holds the lock."""
        ...

    async def renew(self, term: Term, ttl_s: float = 30.0) -> Term | None:
        """The term with a later deadline (0.8 of the TTL from before the call), or None if it was lost."""
        ...

    async def release(self, term: Term) -> None:
        """Give the lock up, if it is still ours."""
        ...

    async def close(self) -> None: ...
