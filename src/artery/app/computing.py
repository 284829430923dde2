"""The indicator engine, beside ingest and gateway or as a process of its own."""

import asyncio
import os

from artery.app.notes import Beat, Note, write_note
from artery.app.wiring import Parts, opened
from artery.lake.open import open_lake
from artery.settings import Settings


async def engine(settings: Settings, parts: Parts) -> None:
    """Keep indicators in the store until cancelled; of several engines one leads."""
    from artery.engine.service import run_engine

    lake = open_lake(settings)
    try:
        await run_engine(settings, parts.bus, parts.store, parts.lock, lake)
    finally:
        lake.close()


async def serve_engine(settings: Settings) -> None:
    """The engine alone."""
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "engine").for_ever())
        group.create_task(engine(settings, parts))
        write_note(settings.folder, Note("engine", os.getpid()))
