"""Which log this is: a position means something in its own log only, so whoever keeps one keeps the log's id too."""

from artery.bus.base import Bus
from artery.errors import Fenced

WRITER = "log"
"""The id is the epoch of a writer that never writes: every backend keeps it, and it rises when a log is moved."""


async def log_id(bus: Bus) -> int:
    """The log's id; 0 while nobody has kept a position of it."""
    return (await bus.fences()).get(WRITER, 0)


async def name_log(bus: Bus, id_: int) -> int:
    """Give the log this id, unless it has a higher one; return the one it has."""
    try:
        await bus.append("trade", [], writer=WRITER, epoch=id_)
    except Fenced:
        return await log_id(bus)
    return id_
