"""One process for what must be quick: ingest and gateway, which meet in its memory, and the trimmer."""

import asyncio
import os

from artery.app.machine import page
from artery.app.notes import Beat, Note, write_note
from artery.app.wiring import Parts, opened
from artery.bus.trimmer import run_trimmer
from artery.gateway.service import run_gateway
from artery.ingest.service import run_ingest
from artery.lake.reads import Lake
from artery.providers.open import open_venue
from artery.settings import Settings


async def serve(settings: Settings) -> None:
    """Run until cancelled; what fails in one part ends them all, and the supervisor starts them anew."""
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "serve").for_ever())
        group.create_task(_gateway(settings, parts))
        group.create_task(_ingest(settings, parts))
        group.create_task(run_trimmer(parts.bus))


async def _gateway(settings: Settings, parts: Parts) -> None:
    def ready(port: int) -> None:
        write_note(settings.folder, Note("serve", os.getpid(), address(settings.gateway.host, port)))

    lake = Lake(settings.folder)
    await run_gateway(settings, parts.bus, parts.pubsub, parts.store, lake, static=page(), ready=ready)


async def _ingest(settings: Settings, parts: Parts) -> None:
    venue = open_venue(settings)
    try:
        await run_ingest(settings, parts.bus, parts.pubsub, parts.store, parts.lock, venue)
    finally:
        await venue.close()


def address(host: str, port: int) -> str:
    """Where a person on this machine finds what listens on `host`."""
    if host in ("", "0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
