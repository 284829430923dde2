"""Ingest as a service: contend for the feed's lock, lead while it is held, stand by while it is not."""

import asyncio
import random
import time

from artery.bus.base import Bus
from artery.errors import BadSetting
from artery.ingest.derived import Derived
from artery.ingest.feed import lock_key, serve_term
from artery.ingest.parts import Parts
from artery.ingest.requests import Requests
from artery.ingest.status import keep_passive
from artery.live.base import LeaderLock, PubSub, Term
from artery.live.leader import PAUSE_S, lead
from artery.providers.base import Venue
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger

AGAIN_S = 5.0
WAITED_S = 1.0
"""A leader that waited longer for the lock than this follows another one."""

_log = logger("ingest")


async def run_ingest(
    settings: Settings, bus: Bus, pubsub: PubSub, store: Store, lock: LeaderLock, venue: Venue
) -> None:
    """Run the feed that the settings name until cancelled; a clean stop frees the lock at once."""
    parts = Parts(settings, bus, pubsub, store, venue, derived=Derived(settings, bus))
    if venue.provider != parts.provider:
        raise BadSetting(f"the venue is {venue.provider}, but ART_INGEST_PROVIDER asks for {parts.provider}")
    if not settings.stream.workers:
        _log.info("feeds are off in this process (ART_STREAM_WORKERS)")
        await keep_passive(parts, "off", "ART_STREAM_WORKERS is off")
        return
    serving = asyncio.create_task(serve_requests(parts, lock))
    try:
        await Service(parts, lock).run()
    finally:
        serving.cancel()
        await asyncio.wait({serving})


async def serve_requests(parts: Parts, lock: LeaderLock) -> None:
    """Fetch what clients ask for, beside the feed, whether it leads or stands by; what fails here leaves it alone."""
    from artery.ingest.summons import Summons  # late, because of its driver

    while True:
        try:
            async with asyncio.TaskGroup() as group:
                work = Requests(parts, lock)
                group.create_task(work.run())
                group.create_task(Summons(parts, work).run())
        except Exception as error:  # a bug too: live data matters more
            _log.error("requests for history cannot be served and are tried again", exc_info=error)
        await asyncio.sleep(AGAIN_S * random.uniform(0.5, 1.0))


class Service:
    """One process's part in a feed: standing by, or leading."""

    def __init__(self, parts: Parts, lock: LeaderLock, pause_s: tuple[float, float] = PAUSE_S) -> None:
        self._parts = parts
        self._lock = lock
        self._pause_s = pause_s
        self._asked = time.monotonic()
        self._terms = 0
        self._leading = False

    async def run(self) -> None:
        """Contend for ever; each time the lock is won, lead."""
        key, ttl_s = lock_key(self._parts.provider), self._parts.settings.ingest.lock_ttl_s
        waiting = asyncio.create_task(
            keep_passive(self._parts, "standby", "another process leads", lambda: self._leading)
        )
        try:
            await lead(self._lock, key, self._term, ttl_s, pause_s=self._pause_s)
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    async def _term(self, term: Term) -> None:
        waited = self._terms > 0 or time.monotonic() - self._asked > WAITED_S
        self._terms += 1
        self._leading = True
        try:
            await serve_term(self._parts, term.epoch, "failover" if waited else "restart")
        finally:
            self._leading = False
