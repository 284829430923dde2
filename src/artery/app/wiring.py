"""Opens what services need, from the settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.live.base import LeaderLock, PubSub
from artery.live.open import open_lock, open_pubsub
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store


@dataclass(frozen=True, slots=True)
class Parts:
    """The replaceable parts, opened."""

    bus: Bus
    store: Store
    pubsub: PubSub
    lock: LeaderLock


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Parts]:
    """Every part that a service shares with others, closed at the end in reverse order."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    store = open_store(settings.store_url())
    bus = open_bus(settings.bus_url(), settings.bus.base)
    pubsub = open_pubsub(settings.live.url)
    lock = open_lock(settings.live.url, store)
    try:
        yield Parts(bus, store, pubsub, lock)
    finally:
        for part in (lock, pubsub, bus, store):
            await part.close()


@asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    """The store alone, for commands that look or leave a word."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    store = open_store(settings.store_url())
    try:
        yield store
    finally:
        await store.close()
