"""All connections of this gateway: who is there, who is being verified, and what they share."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from artery.errors import TooMuch
from artery.gateway import keys, metrics
from artery.gateway.access import Access, Credential
from artery.gateway.door import Door
from artery.gateway.frames import Batch
from artery.gateway.grants import Grant
from artery.gateway.hub import Hub
from artery.gateway.limits import Limits
from artery.gateway.rates import Rates
from artery.gateway.room import Room
from artery.gateway.session import RESTART, Channels, Now, Session, State, Watch

TASKS = "gateway session"
"""How the names of all tasks begin that work for one connection and must end with it."""


class Replaying(Protocol):
    """A replay under way: it is given what is live until the connection has caught up."""

    channel: str
    types: frozenset[str]

    def cancel(self) -> None: ...


class Connection(Protocol):
    """A client's socket, as the rest of the gateway sees it."""

    session: Session | None

    def deliver(self, batch: Batch) -> None: ...

    def tick(self, now_s: float) -> None: ...

    def close(self, code: int, reason: str) -> None: ...

    async def writable(self) -> bool: ...

    def room(self) -> Room: ...

    def caught_up(self, replay: Replaying) -> None: ...


_LEAVE_STEP_S = 0.1

StartReplay = Callable[[Connection, Watch], Replaying]


class Sessions:
    """What every connection needs, and the set of them."""

    def __init__(
        self,
        *,
        hub: Hub,
        channels: Channels,
        access: Access,
        door: Door,
        cookie_name: str,
        limits: Limits,
        connects: Rates,
        replay: StartReplay,
    ) -> None:
        self.hub = hub
        self.channels = channels
        self.door = door
        self.cookie_name = cookie_name
        self.limits = limits
        self._connects = connects
        self.replay = replay
        self.access = access
        self._unverified: set[Connection] = set()
        self._live: set[Connection] = set()

    @property
    def unverified(self) -> int:
        return len(self._unverified)

    @property
    def live(self) -> int:
        return len(self._live)

    def everyone(self) -> list[Connection]:
        return [*self._unverified, *self._live]

    def now(self) -> Now:
        return Now(time.monotonic(), keys.wall_ms())

    async def verify(self, shown: Credential, address: str = "") -> Grant:
        """Who comes, or `NotAllowed`; `TooMuch` if this key, or strangers from this address, come too often."""
        grant = await self.access.verify(shown, address)
        wait_s = self._connects.take(grant.source, time.monotonic())
        if wait_s:
            raise TooMuch("this key connects too often; wait a moment", wait_s)
        return grant

    def add(self, connection: Connection) -> None:
        self._unverified.add(connection)

    def moved(self, connection: Connection) -> None:
        """Its session has changed its state."""
        self._unverified.discard(connection)
        if connection.session is not None and connection.session.state is State.LIVE:
            self._live.add(connection)
        else:
            self._live.discard(connection)

    def remove(self, connection: Connection) -> None:
        self._unverified.discard(connection)
        self._live.discard(connection)

    def tick(self) -> None:
        """Let each session look at the clock: pings, idle ends, verification that takes too long."""
        now_s = time.monotonic()
        for connection in self.everyone():
            connection.tick(now_s)
        metrics.SESSIONS.labels("unverified").set(len(self._unverified))
        metrics.SESSIONS.labels("live").set(len(self._live))

    async def send_away(self, spread_s: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Send everyone away in small groups over this time, so that they do not all come back at once."""
        steps = max(1, round(spread_s / _LEAVE_STEP_S))
        for step in range(steps):
            if self.take_leave(1 / (steps - step)) == 0:
                break
            await sleep(_LEAVE_STEP_S)

    def take_leave(self, share: float) -> int:
        """Tell about this share of the clients that the gateway restarts; returns how many are left."""
        everyone = self.everyone()
        for connection in everyone[: max(1, round(len(everyone) * share))]:
            connection.close(RESTART, "the gateway restarts; come back in a moment")
        return self.unverified + self.live
