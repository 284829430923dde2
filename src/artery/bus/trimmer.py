"""Keep every stream to its size, without taking away what a required group still needs."""

import asyncio
import random

from artery.bus.base import CAPS, REQUIRED_GROUPS, Bus, Trimmed
from artery.errors import ArteryError
from artery.telemetry import counter, logger

HARD_CAP = 4
"""A stream grows to this many times its cap while a required group lags; past it, the oldest entries are lost."""

_log = logger("bus")
_trimmed = counter("bus_trimmed", "entries removed from a stream", "stream")
_lost = counter("bus_lost", "entries removed before a required group had acked them", "stream")


async def trim_all(bus: Bus) -> dict[str, Trimmed]:
    """Trim each stream that is longer than its cap; return what was done to each."""
    done = {}
    for state in await bus.streams():
        cap = CAPS.get(state.name)
        if cap is not None and state.length > cap:
            done[state.name] = await trim_stream(bus, state.name, cap)
    return done


async def trim_stream(bus: Bus, stream: str, cap: int) -> Trimmed:
    """Trim one stream to `cap`; a loss is counted and said aloud."""
    required = REQUIRED_GROUPS.get(stream, ())
    trimmed = await bus.trim(stream, keep=cap, required=required, keep_at_most=HARD_CAP * cap)
    _trimmed.labels(stream).inc(trimmed.removed)
    if trimmed.lost:
        _lost.labels(stream).inc(trimmed.lost)
        _log.warning("entries were lost, because their reader is too far behind", stream=stream, lost=trimmed.lost)
    return trimmed


async def run_trimmer(bus: Bus, every_s: float = 60.0) -> None:
    """Trim for ever; trouble is said and tried again the next time."""
    while True:
        try:
            await trim_all(bus)
        except ArteryError as error:
            _log.warning("trimming failed, trying again later", error=str(error))
        await asyncio.sleep(every_s * random.uniform(0.9, 1.1))
