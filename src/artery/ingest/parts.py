"""What ingest works with, handed down in one piece."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from artery.bus.base import Bus
from artery.live.base import PubSub
from artery.providers.base import Venue
from artery.settings import Settings
from artery.store.base import Store


def wall_ms() -> int:
    """Unix time in milliseconds: the time of events."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Parts:
    """The rooms that a feed uses, and the clock that it goes by."""

    settings: Settings
    bus: Bus
    pubsub: PubSub
    store: Store
    venue: Venue
    now_ms: Callable[[], int] = wall_ms

    @property
    def provider(self) -> str:
        return self.settings.ingest.provider

    @property
    def grace_ms(self) -> int:
        return int(self.settings.ingest.grace_s * 1_000)
