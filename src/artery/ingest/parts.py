"""What ingest works with, handed down in one piece."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from artery.bus.base import Bus
from artery.ingest.derived import Derived
from artery.live.base import PubSub
from artery.model.tickers import ticker
from artery.providers.base import Venue
from artery.settings import Settings
from artery.store.base import Store


def wall_ms() -> int:
    """Unix time in milliseconds: the time of events."""
    return time.time_ns() // 1_000_000


def steady_ms() -> float:
    """Milliseconds on a clock that nobody sets and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1_000


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long the feed's tasks rest between two looks at the world."""

    beat_s: float = 0.25
    """The writer, when nothing comes: the clock is said on its beat."""
    look_s: float = 0.5
    """The planner of repairs, when nothing is due."""
    ask_s: float = 0.2
    """Between two requests for candles: at most five a second."""
    status_s: float = 1.0
    """Between two writings of the feed's status."""
    demand_s: float = 1.0
    """Between two looks at which markets are wanted."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The rooms that a feed uses, and the clock that it goes by."""

    settings: Settings
    bus: Bus
    pubsub: PubSub
    store: Store
    venue: Venue
    now_ms: Callable[[], int] = wall_ms
    pauses: Pauses = Pauses()
    steady_ms: Callable[[], float] = steady_ms
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a relay says that other markets may be wanted."""
    derived: Derived | None = None
    """What of the past need not be fetched, as the lake has it of the feed's own trades."""

    @property
    def provider(self) -> str:
        return self.settings.ingest.provider

    @property
    def exchange(self) -> str:
        """How this provider's tickers begin."""
        return ticker(self.provider, "").rstrip(":")

    @property
    def markets(self) -> tuple[str, ...]:
        """The markets of the settings, each once."""
        return tuple(dict.fromkeys(self.settings.ingest.markets))

    @property
    def grace_ms(self) -> int:
        return int(self.settings.ingest.grace_s * 1_000)
