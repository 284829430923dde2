"""The relay, in a process of its own or beside ingest and gateway."""

import asyncio
import os

from artery.app.notes import Beat, Note, write_note
from artery.app.wiring import Parts, opened
from artery.settings import Settings


async def serve_relay(settings: Settings) -> None:
    """The relay alone: any number of them, each on ports of its own."""
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "relay").for_ever())
        group.create_task(relay(settings, parts, "relay"))


async def relay(settings: Settings, parts: Parts, service: str = "") -> None:
    """The relay beside others, unless it is off; a port that is taken keeps only the relay waiting."""
    from artery.relay.service import run_relay
    from artery.wire.relays import Relay

    def ready(where: Relay) -> None:
        if service:
            write_note(settings.folder, Note(service, os.getpid(), where.requests))

    if settings.relay.on or service:
        await run_relay(settings, parts.bus, parts.store, ready)
