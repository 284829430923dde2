"""Move a log to another place: its entries in order, its groups at their positions, its epochs."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import msgspec

from artery.app.bus_moved import Moved
from artery.bus.base import DEAD, START, Bus, Entry, GroupState, StreamState, place
from artery.bus.log_id import WRITER as LOG
from artery.bus.log_id import log_id, name_log
from artery.errors import BadInput, Fenced, PositionLost, Unavailable

PAGE = 500
CHUNK_MAX_BYTES = 8 * 1024 * 1024
TRADE = "trade"

Tell = Callable[[str, int, int], None]
"""Is told a stream, how many of its entries are copied, and of how many."""
Carry = Callable[[int, int, Mapping[str, Moved]], Awaitable[bool]]
"""Is told the ids of the old and the new log and what was moved; whether there was something to carry."""


class CopiedGroup(msgspec.Struct, frozen=True):
    """A group: it goes on after `start` of the new log. `again` entries that it had been given come once more,
    because the oldest of them was not acked; `lost`: it had missed entries that were trimmed."""

    group: str
    start: str
    again: int
    lost: bool


class CopiedStream(msgspec.Struct, frozen=True):
    """A stream: entries copied, and dead letters left out because they had been requeued."""

    stream: str
    copied: int
    skipped: int
    groups: list[CopiedGroup]


class Copied(msgspec.Struct, frozen=True):
    """`carried`: the pipeline goes on in the new log where it was in the old one."""

    streams: list[CopiedStream]
    epochs: dict[str, int]
    carried: bool = False


async def copy(
    source: Bus, target: Bus, *, append: bool = False, tell: Tell = lambda *_: None, carry: Carry | None = None
) -> Copied:
    """Copy everything and verify it; nothing may write to the source meanwhile.

    Positions differ between logs, so those that entries name (`upTo` of candles and of a feed's words, a dead
    letter's `id`) are translated, and `carry` does the same for those that the pipeline keeps outside. A group that
    has something pending goes on from before it, so that nothing is lost; what it had acked beyond comes again, which
    consumers bear.
    """
    if not append:
        await _refuse_unless_empty(target)
    states = sorted(await source.streams(), key=_order)
    moved: dict[str, Moved] = {}
    copied = [await _stream(source, target, state, moved, append, tell) for state in states]
    epochs = await source.fences()
    old = epochs.pop(LOG, 0)
    for writer, epoch in epochs.items():
        await _fence(target, writer, epoch)
    await _refuse_if_grown(source, states)
    return Copied(copied, epochs, await _named(target, old, moved, carry))


async def _named(target: Bus, old: int, moved: Mapping[str, Moved], carry: Carry | None) -> bool:
    """Give the new log an id of its own, as its positions are its own; a log that had one keeps it."""
    if not old or await log_id(target):
        return False
    new = max(time.time_ns() // 1_000_000, old + 1)
    carried = await carry(old, new, moved) if carry else False
    await name_log(target, new)
    return carried


def _order(state: StreamState) -> tuple[bool, bool, str]:
    """Trades first and dead letters last, as entries name positions of what came before."""
    return state.name != TRADE, state.name == DEAD, state.name


async def _refuse_unless_empty(target: Bus) -> None:
    if any(state.head != START for state in await target.streams()) or await target.fences():
        raise BadInput("the log to copy to is not empty: choose another, or say --append to add to it")


async def _refuse_if_grown(source: Bus, before: Sequence[StreamState]) -> None:
    heads = {state.name: state.head for state in before}
    for state in await source.streams():
        if heads.get(state.name) != state.head:
            raise Unavailable(
                f"{state.name} grew while it was copied: stop what writes to the old log, and copy to an empty place"
            )


async def _fence(target: Bus, writer: str, epoch: int) -> None:
    try:
        await target.append(TRADE, [], writer=writer, epoch=epoch)
    except Fenced:
        return  # what is there is newer, and holds


async def _stream(
    source: Bus, target: Bus, state: StreamState, moved: dict[str, Moved], append: bool, tell: Tell
) -> CopiedStream:
    begin, here = await target.head(state.name), Moved()
    moved[state.name] = here
    skipped, after, end = 0, await _begin(source, state.name), place(state.head)
    while place(after) < end:
        page = await _read(source, state.name, after)
        page = [entry for entry in page if place(entry.id) <= end]
        if not page:
            break
        after = page[-1].id
        kept = await _without_requeued(source, page) if state.name == DEAD else page
        skipped += len(page) - len(kept)
        for chunk in chunks(kept):
            times = await source.when(state.name, [entry.id for entry in chunk])
            rows = [(ms, here.translated(entry.fields, moved)) for ms, entry in zip(times, chunk, strict=True)]
            here.add([entry.id for entry in chunk], await target.restore(state.name, rows))
            tell(state.name, len(here) + skipped, state.length)
    await _verify(target, state, begin, len(here), skipped, append)
    groups = [await _group(source, target, state.name, group, here) for group in await source.groups(state.name)]
    return CopiedStream(state.name, len(here), skipped, groups)


async def _begin(source: Bus, stream: str) -> str:
    """The position before the oldest entry that is there."""
    try:
        await source.read(stream, START, 1)
    except PositionLost as lost:
        return lost.first
    return START


async def _read(source: Bus, stream: str, after: str) -> list[Entry]:
    try:
        return await source.read(stream, after, PAGE)
    except PositionLost as lost:
        raise Unavailable(f"{stream} was trimmed while it was copied: stop what uses the old log first") from lost


async def _without_requeued(source: Bus, page: list[Entry]) -> list[Entry]:
    requeued = await source.requeued([entry.id for entry in page])
    return [entry for entry in page if entry.id not in requeued]


def chunks(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries in parts that a log takes in one go."""
    part: list[Entry] = []
    size = 0
    for entry in entries:
        length = sum(4 * (len(name) + len(value)) for name, value in entry.fields.items())
        if part and size + length > CHUNK_MAX_BYTES:
            yield part
            part, size = [], 0
        part.append(entry)
        size += length
    if part:
        yield part


async def _verify(target: Bus, state: StreamState, begin: str, copied: int, skipped: int, append: bool) -> None:
    found = await target.count_after(state.name, begin)
    if copied + skipped != state.length or (found < copied if append else found != copied):
        raise Unavailable(
            f"{state.name} has {state.length} entries, {copied} were copied and {found} have arrived: "
            "stop what uses either log, and copy to an empty place"
        )


async def _group(source: Bus, target: Bus, stream: str, group: GroupState, moved: Moved) -> CopiedGroup:
    last = moved.at_or_before(group.last)
    start = moved.before(group.oldest_pending) if group.oldest_pending else last
    await target.ensure_group(stream, group.name, start)
    again = moved.count(group.last) - moved.count_before(group.oldest_pending) if group.oldest_pending else 0
    return CopiedGroup(group.name, start, max(0, again), await _has_lost(source, stream, group.last))


async def _has_lost(source: Bus, stream: str, last: str) -> bool:
    try:
        await source.read(stream, last, 1)
    except PositionLost:
        return True
    return False
