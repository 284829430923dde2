"""Limits in time: what a connection waits for, how it backs off, and what it may spend."""

import asyncio
import time
from collections.abc import Callable

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Every wait of a connection. A feed that went silent is noticed in 12 s at most and back in 25 s."""

    tick_s: float = 0.25  # how often the clock is looked at
    open_s: float = 5.0  # to connect, and to get a message out
    close_s: float = 1.0
    ping_s: float = 20.0
    silence_s: float = 10.0  # no data at all: the socket is dead, whatever its pongs say
    book_stale_s: float = 12.0  # the venue sends a whole book every 5.4 s, changed or not
    mids_stale_s: float = 30.0
    ack_s: float = 3.0
    gather_s: float = 1.0  # acknowledgements that come together are announced together
    retry_s: float = 10.0  # a market that does not answer is asked again, less and less often
    retry_max_s: float = 60.0
    quarantine_s: float = 15.0  # a market that the venue refused is tried again, on a socket of its own
    quarantine_max_s: float = 3_600.0
    backoff_s: float = 1.0
    backoff_max_s: float = 30.0
    stable_s: float = 60.0  # a connection that lasted this long was a good one
    margin_ms: int = 1_000  # what may have been under way when the last frame came
    messages_per_min: float = 1_800.0  # the venue allows 2,000
    connects_per_min: float = 24.0  # the venue allows 30


class Budget:
    """So much a minute, half of it at once at most; never more than that in any minute."""

    def __init__(self, per_min: float, now: float) -> None:
        self._burst = per_min / 2
        self._per_s = per_min / 120
        self._left = self._burst
        self._at = now

    def wait_s(self, cost: float, now: float) -> float:
        """0 if it may be spent now, and then it is; else how long to wait before asking again."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left >= min(cost, self._burst):
            self._left -= cost
            return 0.0
        return (min(cost, self._burst) - self._left) / self._per_s


async def spend(budget: Budget, cost: float) -> None:
    """Wait until this much may be spent, and spend it."""
    while True:
        wait_s = budget.wait_s(cost, time.monotonic())
        if wait_s <= 0:
            return
        await asyncio.sleep(wait_s)


class Backoff:
    """Doubling waits with jitter: between half of the step and all of it."""

    def __init__(self, first_s: float, most_s: float, random: Callable[[], float]) -> None:
        self._first_s, self._most_s, self._random = first_s, most_s, random
        self._step_s = first_s

    def next_s(self) -> float:
        step_s, self._step_s = self._step_s, min(self._step_s * 2, self._most_s)
        return step_s * (0.5 + 0.5 * self._random())

    def reset(self) -> None:
        self._step_s = self._first_s
