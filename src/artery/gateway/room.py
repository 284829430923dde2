"""What the replays of one connection share."""

import asyncio

from artery.gateway.limits import Limits


class Room:
    """How many bytes of live events they hold together, and whose turn it is to read the past."""

    __slots__ = ("_bytes_max", "held_bytes", "turns")

    def __init__(self, limits: Limits) -> None:
        self._bytes_max = limits.held_bytes
        self.held_bytes = 0
        self.turns = asyncio.Semaphore(limits.replays)

    @property
    def is_full(self) -> bool:
        return self.held_bytes > self._bytes_max
