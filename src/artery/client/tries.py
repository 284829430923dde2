"""Which gateway a stream tries next, after how long, and when it gives up. No socket, no clock."""

import random
from collections.abc import Callable, Sequence

from websockets.http11 import Response

from artery.client import refusals
from artery.errors import ArteryError, Unavailable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
BUSY_MAX = 20
"""So often in a row gateways may say that they cannot now before a client that never got in is told."""


class Busy(Exception):
    """A gateway has said that it cannot now: this connection is lost, and another, later, may not be."""

    def __init__(self, error: ArteryError) -> None:
        super().__init__(str(error))
        self.error = error


class Tries:
    """What became of the tries so far. Whoever was let in once comes back for ever; who never was is told why."""

    def __init__(self, bases: Sequence[str], chance: Callable[[float, float], float] = random.uniform) -> None:
        self._bases = bases
        self._chance = chance
        self._failures = self._busy = self._denied = 0
        self._connected = self._let_in = False
        self._pause_s = FIRST_PAUSE_S
        self._least_s = 0.0

    @property
    def base(self) -> str:
        """The gateway whose turn it is."""
        return self._bases[self._failures % len(self._bases)]

    def connected(self) -> None:
        """A WebSocket is there; whether the gateway lets the client in is not said yet."""
        self._connected, self._denied = True, 0

    def let_in(self) -> None:
        """The gateway has spoken, and not of trouble: only that ends the growing of the pauses."""
        self._let_in, self._busy, self._pause_s = True, 0, FIRST_PAUSE_S

    def busy(self, error: ArteryError) -> None:
        """It has said that it cannot now; raised where that was said too often."""
        self._busy, self._denied = self._busy + 1, 0
        if self._busy >= BUSY_MAX and not self._let_in:
            raise error from None

    def refused(self, response: Response) -> None:
        """It did not accept a WebSocket; raised where that holds for all of the gateways."""
        again_s = refusals.wait_s(response)
        if again_s is not None:
            self._least_s = again_s
            self.busy(refusals.refusal(response, self.base))
            return
        self._denied += 1
        if self._denied >= len(self._bases):
            raise refusals.refusal(response, self.base)

    def unanswered(self) -> None:
        """Nothing is there; raised where nothing ever was at any of the gateways."""
        if not self._connected and self._failures + 1 >= len(self._bases):
            raise Unavailable(f"nothing answers at {self.base}: start it with `artery up`")

    def next(self) -> float:
        """Turn to the next gateway; so many seconds are to be waited before."""
        self._failures += 1
        least_s, self._least_s = self._least_s, 0.0
        if not (self._connected or self._busy or self._denied):
            return 0.0
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        return max(least_s, pause_s * self._chance(0.5, 1.0))
