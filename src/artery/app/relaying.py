"""The relay, in a process of its own or beside ingest and gateway."""

import asyncio
import os
from typing import TYPE_CHECKING

from artery.app.notes import Beat, Note, write_note
from artery.app.wiring import Parts, opened, opened_store
from artery.errors import Unavailable
from artery.settings import Settings

if TYPE_CHECKING:
    from artery.wire.relays import Relay


async def serve_relay(settings: Settings) -> None:
    """The relay alone: any number of them, each on ports of its own."""
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "relay").for_ever())
        group.create_task(relay(settings, parts, "relay"))


async def relay(settings: Settings, parts: Parts, service: str = "") -> None:
    """The relay beside others, unless it is off; a port that is taken keeps only the relay waiting."""
    from artery.relay.service import run_relay

    def ready(found: "Relay") -> None:
        if service:
            write_note(settings.folder, Note(service, os.getpid(), found.requests))

    if settings.relay.on or service:
        await run_relay(settings, parts.bus, parts.store, ready)


async def where(settings: Settings) -> "Relay":
    """Where the relay of this data folder is; `Unavailable` if none runs."""
    from artery.wire import relays

    async with opened_store(settings) as store:
        found = relays.decode(await store.scan(relays.PREFIX, 100))
    if not found:
        raise Unavailable("no relay runs on this data folder: see the log of `artery up`, or start `artery run relay`")
    return found[0]
