"""Ingest and gateway, in one process or each in its own, and the trimmer beside ingest.

What only one of them needs is imported late, so that a process holds no more than its own part.
"""

import asyncio
import os
import random
from contextlib import suppress

from artery.app.bus_live import follow_live, heads
from artery.app.computing import engine
from artery.app.machine import page
from artery.app.notes import Beat, Note, write_note
from artery.app.relaying import relay
from artery.app.trimming import committed
from artery.app.wiring import Parts, opened
from artery.bus.log_id import log_id
from artery.bus.trimmer import run_trimmer
from artery.errors import ArteryError
from artery.lake.open import open_lake
from artery.lake.reads import Lake
from artery.settings import Settings
from artery.telemetry import logger

UNKNOWN = -1
"""No log has this id: until it is known which one is in use, no position of the lake counts."""
LOG_S = 5.0

_log = logger("app")


async def serve(settings: Settings) -> None:
    """Both, which then meet in memory. Runs until cancelled; what fails in one part ends them all, and the supervisor
    starts them anew."""
    lake = open_lake(settings, UNKNOWN)
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "serve").for_ever())
        group.create_task(_watch_log(parts, lake))
        group.create_task(_gateway(settings, parts, lake, "serve"))
        group.create_task(relay(settings, parts))
        group.create_task(engine(settings, parts))
        group.create_task(_ingest(settings, parts))
        group.create_task(run_trimmer(parts.bus, committed=committed(lake)))


async def serve_ingest(settings: Settings) -> None:
    """Ingest alone: any number of them, of which one leads each feed and the others stand by."""
    lake = open_lake(settings, UNKNOWN)
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "ingest").for_ever())
        group.create_task(_watch_log(parts, lake))
        group.create_task(_ingest(settings, parts))
        group.create_task(run_trimmer(parts.bus, committed=committed(lake)))
        write_note(settings.folder, Note("ingest", os.getpid()))


async def serve_gateway(settings: Settings) -> None:
    """The gateway alone: any number of them. Without a pub/sub that processes share, it follows the log."""
    lake = open_lake(settings, UNKNOWN)
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "gateway").for_ever())
        if not settings.live.url:
            _log.info("ART_LIVE_URL is empty: live events come from the log, and all mid prices are not to be had")
            group.create_task(follow_live(parts.bus, parts.pubsub, await heads(parts.bus)))
        group.create_task(_watch_log(parts, lake))
        group.create_task(_gateway(settings, parts, lake, "gateway"))


async def _watch_log(parts: Parts, lake: Lake) -> None:
    """Keep to the log that is there: its first reader names it, and a server may come back empty."""
    while True:
        with suppress(ArteryError):
            lake.log = await log_id(parts.bus)
        await asyncio.sleep(LOG_S * random.uniform(0.9, 1.1))


async def _gateway(settings: Settings, parts: Parts, lake: Lake, service: str) -> None:
    from artery.gateway.service import run_gateway

    def ready(port: int) -> None:
        write_note(settings.folder, Note(service, os.getpid(), address(settings.gateway.host, port)))

    lake.log = await log_id(parts.bus)
    await run_gateway(settings, parts.bus, parts.pubsub, parts.store, lake, static=page(), ready=ready)


async def _ingest(settings: Settings, parts: Parts) -> None:
    from artery.ingest.service import run_ingest
    from artery.providers.open import open_venue

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
