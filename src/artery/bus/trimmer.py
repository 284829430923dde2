"""Keep every stream to its size, without taking away what a required group or the lake still needs."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from artery.bus.base import (
    CAPS,
    DEAD,
    FEED,
    REQUIRED_GROUPS,
    REQUIRED_PREFIXES,
    START,
    Bus,
    Entry,
    StreamState,
    Trimmed,
)
from artery.bus.losses import Losses
from artery.errors import ArteryError, PositionLost, Unavailable
from artery.model import codec
from artery.telemetry import counter, logger

HARD_CAP = 4
"""A stream grows to this many times its cap while a required group lags; past it, the oldest entries are lost."""
GROWTH = 10_000
"""How much a stream may grow between a look at it and its trim; so much more is kept than the lake needs."""
PAGE = 1_000
STEP_MIN, STEP_MAX, STEP_SHARE = 500, 5_000, 100
"""Of a server that is full, a hundredth of a stream goes at a time, until it takes writes again …"""
STEPS_MAX = 100
"""… or so much has gone that something else must be filling it."""
MARKS_MAX = 100
"""Marks of one step: where more markets have lost something, each of their providers is marked as a whole."""
LOOK_S = 1.0
"""How often it is asked whether the server is full: until something goes, nobody can write."""

Committed = Callable[[], Awaitable[Mapping[str, str]]]
"""How far in each stream the lake has come; `START` or nothing where that is not known."""
Unheard = dict[str, int]
"""Streams of which something may have been lost in a call whose reply was not heard, and their losses before it."""
Removed = dict[str, Trimmed]
"""What was done to each stream."""

_log = logger("bus")
_trimmed = counter("bus_trimmed", "entries removed from a stream", "stream")
_lost = counter("bus_lost", "entries removed before a required group had acked them", "stream")


async def nothing_committed() -> Mapping[str, str]:
    """For a log without a lake: groups alone hold the trimmer back."""
    return {}


async def trim_all(bus: Bus, committed: Committed = nothing_committed, unheard: Unheard | None = None) -> Removed:
    """Trim each stream that is longer than its cap, and more if the server is full; return what was done to each.

    Keep `unheard` for the next time: then a loss whose reply was not heard is counted and said all the same.
    """
    unheard, done = {} if unheard is None else unheard, Removed()
    states = await bus.streams()
    for state in states:
        if state.name in unheard:
            _said(state.name, Trimmed(0, state.lost - unheard.pop(state.name)))
    if await bus.is_full():
        done = await relieve(bus, committed, unheard)
        states = await bus.streams()
    await _ensure_groups(bus, states)
    positions: Mapping[str, str] | None = None
    for state in states:
        cap = CAPS.get(state.name)
        if cap is not None and state.length > cap:
            positions = await committed() if positions is None else positions
            trimmed = await trim_stream(bus, state.name, cap, positions.get(state.name, START), unheard)
            done[state.name] = _sum(trimmed, done.get(state.name))
    return done


async def _ensure_groups(bus: Bus, states: Sequence[StreamState]) -> None:
    """Have every reader that must not miss anything be known before anything goes, though it has never run."""
    for state in states:
        for group in REQUIRED_GROUPS.get(state.name, ()):
            await bus.ensure_group(state.name, group)


async def _required(bus: Bus, stream: str) -> Sequence[str]:
    prefix = REQUIRED_PREFIXES.get(stream)
    if prefix is None:
        return REQUIRED_GROUPS.get(stream, ())
    return [group.name for group in await bus.groups(stream) if group.name.startswith(prefix)]


async def trim_stream(
    bus: Bus, stream: str, cap: int, committed: str = START, unheard: Unheard | None = None
) -> Trimmed:
    """Trim one stream to `cap`, but neither past what a required group has not acked nor past what the lake has
    `committed`. Past the hard cap that cannot be helped: then the loss is written as marks first, counted and said."""
    required, most = await _required(bus, stream), HARD_CAP * cap
    keep = cap if committed == START else min(max(cap, await bus.count_after(stream, committed) + GROWTH), most)
    trimmed = _said(stream, await bus.trim(stream, keep=keep, required=required))
    over = await bus.count_after(stream, START) - most
    if over > 0:
        losses = Losses()
        seen, _ = await _look(bus, stream, over, losses)
        await _mark(bus, losses)
        unheard = {} if unheard is None else unheard
        forced = await _heard(
            bus, stream, unheard, lambda: bus.trim(stream, keep=keep, required=required, keep_at_most=most)
        )
        if forced.removed > seen:  # it grew meanwhile
            losses.reach(await _oldest(bus, stream, 1))
            await _mark(bus, losses)
        trimmed = _sum(trimmed, forced)
    return trimmed


async def relieve(bus: Bus, committed: Committed = nothing_committed, unheard: Unheard | None = None) -> Removed:
    """Have a server that is full take writes again, by removing as little as does: what nobody needs, if there is such,
    then dead letters, else the oldest of the stream that takes most of its room, in one step with marks of the loss."""
    positions, done = await committed(), Removed()
    unheard = {} if unheard is None else unheard
    roomy, marked_ms = False, 0
    for _ in range(STEPS_MAX):
        if not await bus.is_full():
            if roomy:
                return done
            roomy = True  # one step more, as at the very edge the next call may be refused again
        states = [state for state in await bus.streams() if state.length > 1]  # others may be trimming too
        name, gone = await _spare(bus, states, positions)
        if not gone.removed:
            name, gone, marked_ms = await _give_up(bus, states, unheard, marked_ms)
        if not name:
            break
        if gone.removed:
            done[name] = _sum(gone, done.get(name))
    raise Unavailable("the log's server is full, and taking from the streams does not help: give it more memory")


async def _spare(bus: Bus, states: Sequence[StreamState], positions: Mapping[str, str]) -> tuple[str, Trimmed]:
    """Remove a little that nobody needs any more, or else some dead letters."""
    for state in _grown(states):
        name = state.name
        if not set(REQUIRED_GROUPS[name]) <= {group.name for group in await bus.groups(name)}:
            continue  # a reader that must not miss anything has not run yet, and on a full server cannot be made known
        keep, position = state.length - _step_of(state), positions.get(name, START)
        if position != START:
            keep = max(keep, await bus.count_after(name, position) + PAGE)
        spared = await bus.trim(name, keep=keep, required=REQUIRED_GROUPS[name])
        if spared.removed:
            return name, _said(name, spared)
    for state in states:
        if state.name == DEAD:
            return DEAD, _said(DEAD, await bus.trim(DEAD, keep=state.length - _step_of(state)))
    return "", Trimmed(0, 0)


async def _give_up(
    bus: Bus, states: Sequence[StreamState], unheard: Unheard, marked_ms: int
) -> tuple[str, Trimmed, int]:
    """Remove a little of the stream that has grown most, though it is needed; and the time of the last mark of it."""
    for state in _grown(states)[:1]:
        losses = Losses()
        try:
            _, up_to = await _look(bus, state.name, _step_of(state), losses)
        except PositionLost:  # another trimmer was quicker, and has marked what it took
            return state.name, Trimmed(0, 0), marked_ms
        now_ms = max(time.time_ns() // 1_000_000, marked_ms + 1)
        marks = losses.marks(await bus.fences(), now_ms, await bus.head("trade"), most=MARKS_MAX)
        said, required = list(map(codec.encode, marks)), REQUIRED_GROUPS[state.name]
        gone = await _heard(bus, state.name, unheard, partial(bus.give_up, state.name, up_to, said, required))
        return state.name, gone, max((mark.ts for mark in marks), default=marked_ms)
    return "", Trimmed(0, 0), marked_ms


def _grown(states: Sequence[StreamState]) -> list[StreamState]:
    """Streams that markets fill, the one that has grown most first."""
    market = [state for state in states if state.name in REQUIRED_GROUPS]
    return sorted(market, key=lambda state: state.length / CAPS[state.name], reverse=True)


def _step_of(state: StreamState) -> int:
    return min(state.length - 1, STEP_MAX, max(STEP_MIN, state.length // STEP_SHARE))


def _sum(one: Trimmed, other: Trimmed | None) -> Trimmed:
    return one if other is None else Trimmed(one.removed + other.removed, one.lost + other.lost)


def _said(stream: str, trimmed: Trimmed) -> Trimmed:
    """Count it, and raise the alarm if it is a loss."""
    _trimmed.labels(stream).inc(trimmed.removed)
    if trimmed.lost:
        _lost.labels(stream).inc(trimmed.lost)
        _log.error("entries were lost, because their reader is too far behind", stream=stream, lost=trimmed.lost)
    return trimmed


async def _heard(bus: Bus, stream: str, unheard: Unheard, remove: Callable[[], Awaitable[Trimmed]]) -> Trimmed:
    """Count and say what is lost: now, or the next time if the reply is not heard."""
    unheard[stream] = next((state.lost for state in await bus.streams() if state.name == stream), 0)
    trimmed = _said(stream, await remove())
    del unheard[stream]
    return trimmed


async def _look(bus: Bus, stream: str, count: int, losses: Losses) -> tuple[int, str]:
    """See what the oldest entries are about; how many of them were looked at, and the position of the last."""
    seen, last = 0, START
    page = await _oldest(bus, stream, min(PAGE, count))
    while page:
        losses.see(page)
        seen, last = seen + len(page), page[-1].id
        page = await bus.read(stream, last, min(PAGE, count - seen)) if seen < count else []
    return seen, last


async def _oldest(bus: Bus, stream: str, limit: int) -> list[Entry]:
    try:
        return await bus.read(stream, START, limit)
    except PositionLost as lost:
        return await bus.read(stream, lost.first, limit)


async def _mark(bus: Bus, losses: Losses) -> None:
    """Say in the log what is not to be had from it any more: clients are told, and a venue's candles repair it."""
    marks = losses.marks(await bus.fences(), time.time_ns() // 1_000_000, await bus.head("trade"))
    if marks:
        await bus.append(FEED, [codec.encode(mark) for mark in marks])


async def run_trimmer(bus: Bus, every_s: float = 60.0, committed: Committed = nothing_committed) -> None:
    """Trim for ever, at once when the server is full; trouble is said and tried again the next time."""
    unheard: Unheard = {}
    while True:
        try:
            await trim_all(bus, committed, unheard)
        except ArteryError as error:
            _log.warning("trimming failed, trying again later", error=str(error))
        until = time.monotonic() + every_s * random.uniform(0.9, 1.1)
        while (left_s := until - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK_S, left_s))
            with suppress(ArteryError):
                if await bus.is_full():
                    break
