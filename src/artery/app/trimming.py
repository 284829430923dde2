"""The trimmer with the lake's word: what is not committed there stays in the log."""

import asyncio
from functools import partial

from artery.bus.base import Bus, Trimmed
from artery.bus.log_id import log_id
from artery.bus.trimmer import Committed, trim_all
from artery.lake.open import open_lake
from artery.lake.reads import Lake
from artery.settings import Settings


def committed(lake: Lake) -> Committed:
    """How far the lake has come, asked for each time."""
    return partial(asyncio.to_thread, lake.positions)


async def trim_now(bus: Bus, settings: Settings) -> dict[str, Trimmed]:
    """What the trimmer does every minute, once; a lake of these settings that is not of this log counts for nothing."""
    lake = open_lake(settings, await log_id(bus))
    try:
        return await trim_all(bus, committed(lake))
    finally:
        lake.close()
