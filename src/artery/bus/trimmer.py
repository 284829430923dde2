"""Keep every stream to its size, without taking away what a required group or the lake still needs."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping

from artery.bus.base import CAPS, REQUIRED_GROUPS, START, Bus, Entry, Trimmed
from artery.bus.losses import Losses
from artery.errors import ArteryError, PositionLost
from artery.model import codec
from artery.telemetry import counter, logger

HARD_CAP = 4
"""A stream grows to this many times its cap while a required group lags; past it, the oldest entries are lost."""
GROWTH = 10_000
"""How much a stream may grow between a look at it and its trim; so much more is kept than the lake needs."""
PAGE = 1_000

Committed = Callable[[], Awaitable[Mapping[str, str]]]
"""How far in each stream the lake has come; `START` or nothing where that is not known."""

_log = logger("bus")
_trimmed = counter("bus_trimmed", "entries removed from a stream", "stream")
_lost = counter("bus_lost", "entries removed before a required group had acked them", "stream")


async def nothing_committed() -> Mapping[str, str]:
    """For a log without a lake: groups alone hold the trimmer back."""
    return {}


async def trim_all(bus: Bus, committed: Committed = nothing_committed) -> dict[str, Trimmed]:
    """Trim each stream that is longer than its cap; return what was done to each."""
    done = {}
    positions: Mapping[str, str] | None = None
    for state in await bus.streams():
        cap = CAPS.get(state.name)
        if cap is not None and state.length > cap:
            positions = await committed() if positions is None else positions
            done[state.name] = await trim_stream(bus, state.name, cap, positions.get(state.name, START))
    return done


async def trim_stream(bus: Bus, stream: str, cap: int, committed: str = START) -> Trimmed:
    """Trim one stream to `cap`, but neither past what a required group has not acked nor past what the lake has
    `committed`. Past the hard cap that cannot be helped: then the loss is written as marks first, counted and said."""
    required, most = REQUIRED_GROUPS.get(stream, ()), HARD_CAP * cap
    keep = cap if committed == START else min(max(cap, await bus.count_after(stream, committed) + GROWTH), most)
    trimmed = await bus.trim(stream, keep=keep, required=required)
    over = await bus.count_after(stream, START) - most
    if over > 0:
        losses, seen = await _look(bus, stream, over)
        await _mark(bus, losses)
        forced = await bus.trim(stream, keep=keep, required=required, keep_at_most=most)
        if forced.removed > seen:  # it grew meanwhile
            losses.reach(await _oldest(bus, stream, 1))
            await _mark(bus, losses)
        trimmed = Trimmed(trimmed.removed + forced.removed, trimmed.lost + forced.lost)
    _trimmed.labels(stream).inc(trimmed.removed)
    if trimmed.lost:
        _lost.labels(stream).inc(trimmed.lost)
        _log.error("entries were lost, because their reader is too far behind", stream=stream, lost=trimmed.lost)
    return trimmed


async def _look(bus: Bus, stream: str, count: int) -> tuple[Losses, int]:
    """What the oldest entries are about, and how many of them were looked at."""
    losses, seen = Losses(), 0
    page = await _oldest(bus, stream, min(PAGE, count))
    while page:
        losses.see(page)
        seen += len(page)
        page = await bus.read(stream, page[-1].id, min(PAGE, count - seen)) if seen < count else []
    return losses, seen


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


async def run_trimmer(bus: Bus, every_s: float = 60.0, committed: Committed = nothing_committed) -> None:
    """Trim for ever; trouble is said and tried again the next time."""
    while True:
        try:
            await trim_all(bus, committed)
        except ArteryError as error:
            _log.warning("trimming failed, trying again later", error=str(error))
        await asyncio.sleep(every_s * random.uniform(0.9, 1.1))
