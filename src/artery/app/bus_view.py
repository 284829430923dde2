"""The log as people look at it: its streams, its groups, its dead letters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from artery.bus.base import CAPS, START, Bus, StreamState
from artery.bus.dead import letter_rows
from artery.bus.open import open_bus
from artery.errors import BadInput, PositionLost, Unavailable
from artery.store.sqlite_file import MEMORY, file_of

HOUR_MS = 3_600_000
RATE_S = 60
HOURS_LEAST = 24


class StreamRow(msgspec.Struct, frozen=True):
    """A stream: its size, how far back it can be replayed, and what is wrong with that."""

    stream: str
    length: int
    first: str
    head: str
    oldest_ms: int
    """When its oldest entry was appended; 0 if it is empty."""
    hours: float
    """How far back it can be replayed."""
    per_s: float
    """Entries a second, over the last minute."""
    trimmed: bool
    lost: int
    warning: str


class GroupRow(msgspec.Struct, frozen=True):
    """A group: what it was not given yet, and what it was given and has not acked."""

    stream: str
    group: str
    lag: int
    pending: int
    last: str
    oldest_pending: str
    oldest_pending_ms: int
    """When the oldest of these was appended; 0 if there is none, or it has been trimmed."""


@asynccontextmanager
async def opened_bus(url: str, base: str, *, make: bool = False) -> AsyncIterator[Bus]:
    """The log at a URL, closed at the end; a file that is not there is not made, unless told so."""
    if not make:
        _refuse_unless_there(url)
    bus = open_bus(url, base)
    try:
        yield bus
    finally:
        await bus.close()


def _refuse_unless_there(url: str) -> None:
    path = file_of(url) if url.startswith("sqlite:") else MEMORY
    if path != MEMORY and not Path(path).is_file():
        raise Unavailable(f"there is no log at {path}; `artery up` makes one, --url names another")


async def known_stream(bus: Bus, stream: str) -> str:
    """The stream's name, unless there is none of that name and never will be."""
    if stream in CAPS:
        return stream  # without a look at every stream, which on Kafka means to read them all
    names = {state.name for state in await bus.streams()} | set(CAPS)
    if stream not in names:
        raise BadInput(f"no stream is called {stream!r:.40}; there are {', '.join(sorted(names))}")
    return stream


async def stream_rows(bus: Bus, now_ms: int) -> list[StreamRow]:
    """Every stream."""
    return [await _stream_row(bus, state, now_ms) for state in await bus.streams()]


async def _stream_row(bus: Bus, state: StreamState, now_ms: int) -> StreamRow:
    oldest_ms = (await bus.when(state.name, [state.first]))[0] if state.length else 0
    hours = max(0, now_ms - oldest_ms) / HOUR_MS if oldest_ms else 0.0
    minute_ago = await bus.find(state.name, now_ms - RATE_S * 1_000)
    fresh = await bus.count_after(state.name, minute_ago)
    trimmed = await _is_trimmed(bus, state.name)
    return StreamRow(
        state.name,
        state.length,
        state.first,
        state.head,
        oldest_ms,
        round(hours, 2),
        round(fresh / RATE_S, 2),
        trimmed,
        state.lost,
        warning_of(trimmed, hours, state.lost),
    )


def warning_of(trimmed: bool, hours: float, lost: int) -> str:
    """What a person should know about a stream; mostly nothing."""
    said = []
    if lost:
        said.append(f"{lost} entries were lost: a required group was too far behind")
    if trimmed and hours < HOURS_LEAST:
        said.append(f"replays reach back less than {HOURS_LEAST} h; older data comes from the lake")
    return "; ".join(said)


async def _is_trimmed(bus: Bus, stream: str) -> bool:
    try:
        await bus.read(stream, START, 1)
    except PositionLost:
        return True
    return False


async def group_rows(bus: Bus) -> list[GroupRow]:
    """Every group of every stream."""
    rows = []
    for state in await bus.streams():
        for group in await bus.groups(state.name):
            oldest = group.oldest_pending
            ms = (await bus.when(state.name, [oldest]))[0] if oldest else 0
            rows.append(GroupRow(state.name, group.name, group.lag, group.pending, group.last, oldest, ms))
    return rows


class Requeued(msgspec.Struct, frozen=True):
    """What became of a dead letter."""

    id: str
    position: str = ""
    error: str = ""


async def requeue_all(bus: Bus, limit: int) -> list[Requeued]:
    """Requeue the letters that are there, oldest first; one that cannot be is said and left."""
    done = []
    for row in reversed(await letter_rows(bus, limit)):
        try:
            done.append(Requeued(row.id, await bus.requeue(row.id)))
        except BadInput as error:
            done.append(Requeued(row.id, error=str(error)))
    return done
