"""Keep every stream to its size, without taking away what a required group or the lake still needs."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from artery.bus.base import CAPS, REQUIRED_GROUPS, REQUIRED_PREFIXES, START, Bus, Entry, StreamState, Trimmed
from artery.bus.losses import Losses
from artery.errors import ArteryError, PositionLost, Unavailable
from artery.model import codec
from artery.telemetry import counter, logger

HARD_CAP = 4
"""A stream grows to this many times its cap while a required group lags; past it, the oldest entries are lost."""
GROWTH = 10_000
"""How much a stream may grow between a look at it and its trim; so much more is kept than the lake needs."""
PAGE = 1_000
STEP_MIN, STEP_SHARE, STEPS_MAX = 500, 100, 1_000
"""Of a server that is full, a hundredth of a stream goes at a time, until it takes writes again."""
LOOK_S = 1.0
"""How often it is asked whether the server is full: until something goes, nobody can write."""

Committed = Callable[[], Awaitable[Mapping[str, str]]]
"""How far in each stream the lake has come; `START` or nothing where that is not known."""

_log = logger("bus")
_trimmed = counter("bus_trimmed", "entries removed from a stream", "stream")
_lost = counter("bus_lost", "entries removed before a required group had acked them", "stream")


async def nothing_committed() -> Mapping[str, str]:
    """For a log without a lake: groups alone hold the trimmer back."""
    return {}


async def trim_all(bus: Bus, committed: Committed = nothing_committed) -> dict[str, Trimmed]:
    """Trim each stream that is longer than its cap, and more if the server is full; return what was done to each."""
    done = await relieve(bus, committed) if await bus.is_full() else {}
    positions: Mapping[str, str] | None = None
    states = await bus.streams()
    await _ensure_groups(bus, states)
    for state in states:
        cap = CAPS.get(state.name)
        if cap is not None and state.length > cap:
            positions = await committed() if positions is None else positions
            trimmed = await trim_stream(bus, state.name, cap, positions.get(state.name, START))
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


async def trim_stream(bus: Bus, stream: str, cap: int, committed: str = START) -> Trimmed:
    """Trim one stream to `cap`, but neither past what a required group has not acked nor past what the lake has
    `committed`. Past the hard cap that cannot be helped: then the loss is written as marks first, counted and said."""
    required, most = await _required(bus, stream), HARD_CAP * cap
    keep = cap if committed == START else min(max(cap, await bus.count_after(stream, committed) + GROWTH), most)
    trimmed = _said(stream, await bus.trim(stream, keep=keep, required=required))
    over = await bus.count_after(stream, START) - most
    if over > 0:
        losses = Losses()
        seen = await _look(bus, stream, over, losses)
        await _mark(bus, losses)
        forced = _said(stream, await bus.trim(stream, keep=keep, required=required, keep_at_most=most))
        if forced.removed > seen:  # it grew meanwhile
            losses.reach(await _oldest(bus, stream, 1))
            await _mark(bus, losses)
        trimmed = _sum(trimmed, forced)
    return trimmed


async def relieve(bus: Bus, committed: Committed = nothing_committed) -> dict[str, Trimmed]:
    """Have a server that is full take writes again, by removing as little as does: what nobody needs, if there is such,
    else the oldest of the stream that takes most of its room. A loss is marked as soon as a mark can be written."""
    lengths = {state.name: state.length for state in await bus.streams() if state.name in REQUIRED_GROUPS}
    positions, done, losses = await committed(), dict[str, Trimmed](), Losses()
    roomy = False
    for _ in range(STEPS_MAX):
        if not await bus.is_full():
            if roomy and await _marked(bus, losses):
                return done
            roomy = True  # one step more, as at the very edge the next call may be refused again
        name, gone = await _step(bus, lengths, positions, losses)
        if not gone.removed:
            break
        lengths[name] -= gone.removed
        done[name] = _sum(gone, done.get(name))
    raise Unavailable("the log's server is full, and of the streams nothing more can go: give it more memory")


async def _step(
    bus: Bus, lengths: Mapping[str, int], positions: Mapping[str, str], losses: Losses
) -> tuple[str, Trimmed]:
    """Remove a little of one stream: of one that can spare it, else of the one that has grown most."""
    grown = sorted(lengths, key=lambda name: lengths[name] / CAPS[name], reverse=True)
    for name in grown:
        keep, position = _less(lengths[name]), positions.get(name, START)
        if position != START:
            keep = max(keep, await bus.count_after(name, position) + PAGE)
        spared = await bus.trim(name, keep=keep, required=REQUIRED_GROUPS[name])
        if spared.removed:
            return name, _said(name, spared)
    for name in grown[:1]:
        keep = _less(lengths[name])
        await _look(bus, name, lengths[name] - keep, losses)
        return name, _said(name, await bus.trim(name, keep=keep, required=REQUIRED_GROUPS[name], keep_at_most=keep))
    return "", Trimmed(0, 0)


def _less(length: int) -> int:
    return max(1, length - max(STEP_MIN, length // STEP_SHARE))


def _sum(one: Trimmed, other: Trimmed | None) -> Trimmed:
    return one if other is None else Trimmed(one.removed + other.removed, one.lost + other.lost)


def _said(stream: str, trimmed: Trimmed) -> Trimmed:
    """Count it, and raise the alarm if it is a loss."""
    _trimmed.labels(stream).inc(trimmed.removed)
    if trimmed.lost:
        _lost.labels(stream).inc(trimmed.lost)
        _log.error("entries were lost, because their reader is too far behind", stream=stream, lost=trimmed.lost)
    return trimmed


async def _look(bus: Bus, stream: str, count: int, losses: Losses) -> int:
    """See what the oldest entries are about; how many of them were looked at."""
    seen = 0
    page = await _oldest(bus, stream, min(PAGE, count))
    while page:
        losses.see(page)
        seen += len(page)
        page = await bus.read(stream, page[-1].id, min(PAGE, count - seen)) if seen < count else []
    return seen


async def _oldest(bus: Bus, stream: str, limit: int) -> list[Entry]:
    try:
        return await bus.read(stream, START, limit)
    except PositionLost as lost:
        return await bus.read(stream, lost.first, limit)


async def _mark(bus: Bus, losses: Losses) -> None:
    """Say in the log what is not to be had from it any more: clients are told, and a venue's candles repair it."""
    marks = losses.marks(await bus.fences(), time.time_ns() // 1_000_000, await bus.head("trade"))
    if marks:
        await bus.append("feed", [codec.encode(mark) for mark in marks])


async def _marked(bus: Bus, losses: Losses) -> bool:
    """Whether the losses were marked; not if others have filled the server again."""
    try:
        await _mark(bus, losses)
    except Unavailable:
        if not await bus.is_full():
            raise
        return False
    return True


async def run_trimmer(bus: Bus, every_s: float = 60.0, committed: Committed = nothing_committed) -> None:
    """Trim for ever, at once when the server is full; trouble is said and tried again the next time."""
    while True:
        try:
            await trim_all(bus, committed)
        except ArteryError as error:
            _log.warning("trimming failed, trying again later", error=str(error))
        until = time.monotonic() + every_s * random.uniform(0.9, 1.1)
        while (left_s := until - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK_S, left_s))
            with suppress(ArteryError):
                if await bus.is_full():
                    break
