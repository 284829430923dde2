"""What a bus backend owes its callers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

START = "0"
"""The position before the first entry of every stream."""

DEAD, FEED = "dead", "feed"

CAPS = {
    "candle": 200_000,
    "book": 300_000,
    "trade": 500_000,
    "feed": 500_000,
    "request": 100_000,
    "history": 100_000,
    "symbol": 100_000,
    "trigger": 100_000,
    "notify": 100_000,
    "dead": 100_000,
}
"""Every stream, by the type of event it keeps, and how many entries it may hold."""

REQUIRED_GROUPS = {
    "candle": ("cg_storage_candle",),
    "book": ("cg_storage_book",),
    "trade": ("cg_storage_trade",),
    "feed": ("cg_storage_feed",),
    "history": ("cg_storage_history",),
    "symbol": ("cg_storage_symbol",),
    "notify": ("cg_publish_notify",),
}
"""Groups that hold the trimmer back; it makes those that no reader has made yet."""

REQUIRED_PREFIXES = {"request": "cg_ingest_request_"}
"""Groups whose names begin so hold it back too, once they exist: each provider has one."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One record of a stream; `id` is its position, `tries` how often a group was given it."""

    id: str
    fields: dict[str, str]
    tries: int = 0


class GroupState(msgspec.Struct, frozen=True):
    """How far a group has come: entries it was never given, entries it was given and did not ack."""

    name: str
    lag: int
    pending: int
    last: str
    """The newest position that was given out."""
    oldest_pending: str = ""


class StreamState(msgspec.Struct, frozen=True):
    """A stream's size and ends; `first` is the oldest entry's id, `head` the newest's (`0` when empty)."""

    name: str
    length: int
    first: str
    head: str
    lost: int = 0
    """How many entries were trimmed before a required group had them."""


class Trimmed(msgspec.Struct, frozen=True):
    """What a trim did: entries removed, and how many of them a required group had not acked."""

    removed: int
    lost: int


def place(position: str) -> tuple[int, ...]:
    """Positions of one stream compare by this: `12` → (12,), `1730000000000-3` → (1730000000000, 3)."""
    return tuple(int(part) for part in position.split("-"))


class Bus(Protocol):
    """A set of durable streams. Streams are named by event type (`trade`); the base name is the backend's.

    Order: entries of one stream have rising positions, in the order in which `append` returned.
    Durability: when `append` returns, the entries survive a crash of every process (SQLite: synced).
    Fencing: a writer that appends with an epoch lower than one seen for its name gets `Fenced` and
    nothing is written. An append of no entries only fences.
    Delivery: an entry that was not acked is given again; an acked one is not. A position that was trimmed
    is reported with `PositionLost`, never skipped in silence; reading `after=error.first` goes on with the
    oldest entry there is.
    """

    async def append(
        self, stream: str, entries: Sequence[Mapping[str, str]], *, writer: str = "", epoch: int = 0
    ) -> list[str]:
        """Write all of the entries or none; return their positions. `writer` names the fence (`sim`, `pipeline`)."""
        ...

    async def head(self, stream: str) -> str:
        """The newest position, or `START`; it stays when entries are trimmed."""
        ...

    async def read(self, stream: str, after: str = START, limit: int = 1_000) -> list[Entry]:
        """Entries after a position, oldest first. `PositionLost` if the next one was trimmed (on a trimmed stream
        also after `START`), or if the position lies past the head: the log was replaced."""
        ...

    async def read_back(self, stream: str, limit: int, before: str = "") -> list[Entry]:
        """The newest entries (before a position, if given), newest first."""
        ...

    def follow(self, stream: str, after: str = START, limit: int = 1_000) -> AsyncIterator[list[Entry]]:
        """Read after a position, then wait for more, for ever; also what other processes append, within 20 ms."""
        ...

    async def find(self, stream: str, ms: int) -> str:
        """The newest position whose entry was appended before this wall-clock time, or `START`."""
        ...

    async def ensure_group(self, stream: str, group: str, start: str = START) -> None:
        """Make the group if it does not exist, to be given what follows `start`."""
        ...

    async def read_pending(
        self, stream: str, group: str, consumer: str, after: str = START, limit: int = 100
    ) -> list[Entry]:
        """What this consumer was given and did not ack, page by page (`after` the last one seen); counts a try.
        An entry that has been trimmed since has no fields."""
        ...

    async def read_new(
        self, stream: str, group: str, consumer: str, limit: int = 100, wait_ms: int = 0, done: Sequence[str] = ()
    ) -> list[Entry]:
        """What the group was never given, waiting at most `wait_ms` for the first. `PositionLost`, once, if that was
        trimmed: the next call goes on behind the loss. `done` is acked before anything else, which costs less here
        than by itself; after an error it may be or not, so it is acked again."""
        ...

    async def ack(self, stream: str, group: str, ids: Sequence[str]) -> int:
        """Say that these are done; return how many of them were pending."""
        ...

    async def ack_up_to(self, stream: str, group: str, position: str) -> None:
        """Say that everything up to here is done (a reader that keeps its own position); past the head: `BadInput`."""
        ...

    async def claim(self, stream: str, group: str, consumer: str, idle_ms: int, limit: int = 100) -> list[Entry]:
        """Take over what other consumers have left pending for longer than `idle_ms`; counts a try."""
        ...

    async def dead_letter(self, stream: str, group: str, entry: Entry, error: str) -> None:
        """Move an entry to `dead` and ack it, in one step; nothing happens if it is not pending any more."""
        ...

    async def group(self, stream: str, group: str) -> GroupState: ...

    async def groups(self, stream: str) -> list[GroupState]: ...

    async def streams(self) -> list[StreamState]: ...

    async def trim(self, stream: str, *, keep: int, required: Sequence[str] = (), keep_at_most: int = 0) -> Trimmed:
        """Remove the oldest so that about `keep` remain, never past what a required group that exists has not
        acked; past `keep_at_most` (if not 0) it removes even that, and counts it as lost."""
        ...

    async def count_after(self, stream: str, position: str) -> int:
        """How many of the entries that are there follow a position."""
        ...

    async def is_full(self) -> bool:
        """Whether the server has no room for another write until entries are removed (Redis, at its `maxmemory`)."""
        ...

    async def give_up(
        self, stream: str, up_to: str, marks: Sequence[Mapping[str, str]], required: Sequence[str] = ()
    ) -> Trimmed:
        """On a server that is full: remove what there is up to a position, though it is needed (by a required group
        that was never made, all of it), and append `marks` to `feed` if anything went, in one step."""
        ...

    async def when(self, stream: str, ids: Sequence[str]) -> list[int]:
        """When each of these was appended, in Unix milliseconds; 0 where the log does not know any more."""
        ...

    async def fences(self) -> dict[str, int]:
        """The highest epoch seen of each writer. An append of no entries sets one."""
        ...

    async def restore(self, stream: str, entries: Sequence[tuple[int, Mapping[str, str]]]) -> list[str]:
        """Append entries of another log, each with the time (Unix ms) at which it had been appended there; a time
        before that of the head counts as the head's. All of them or none."""
        ...

    async def requeue(self, dead_id: str) -> str:
        """Append what a dead letter holds to its stream once more and mark the letter, in one step; return the new
        position. `BadInput` if there is no such letter, it holds nothing, or it was requeued before."""
        ...

    async def requeued(self, dead_ids: Sequence[str]) -> set[str]:
        """Those of these dead letters that were requeued."""
        ...

    async def close(self) -> None: ...
