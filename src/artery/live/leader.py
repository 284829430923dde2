"""Lead while the lock is ours, and stop before it can be another's."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from artery.errors import ArteryError, Fenced
from artery.live.base import LeaderLock, Term
from artery.telemetry import logger

_log = logger("live")

Work = Callable[[Term], Awaitable[None]]
PAUSE_S = (2.0, 4.5)
"""How long a contender rests: after a clean stop another leads within 5 s, with what the stop and the lock take."""


async def lead(
    lock: LeaderLock,
    key: str,
    work: Work,
    ttl_s: float = 30.0,
    *,
    pause_s: tuple[float, float] = PAUSE_S,
    monotonic: Callable[[], float] = time.monotonic,
    uniform: Callable[[float, float], float] = random.uniform,
) -> None:
    """Contend for the lock for ever, and run `work(term)` while it is held.

    The work is cancelled when the lock is lost, or shortly before the term's deadline if it could not be renewed, even
    if the call that should renew it hangs. When the work is fenced or fails with something temporary, the lock is
    given up and contended for again. When the work returns, so does this; any other error is the caller's. When this
    is cancelled, the work is stopped, then the lock released.
    """
    while True:
        term = await _acquire(lock, key, ttl_s)
        if term is not None and await _serve(_Keeper(lock, term, ttl_s, monotonic), work):
            return
        await asyncio.sleep(uniform(*pause_s))


async def _acquire(lock: LeaderLock, key: str, ttl_s: float) -> Term | None:
    try:
        async with asyncio.timeout(ttl_s / 2):
            return await lock.acquire(key, ttl_s)
    except TimeoutError:
        _log.warning("the lock does not answer, trying again", key=key)
    except ArteryError as error:
        if not error.temporary:
            raise
        _log.warning("the lock is away, trying again", key=key, error=str(error))
    return None


async def _serve(keeper: "_Keeper", work: Work) -> bool:
    """One term; whether the work came to its end."""
    term = keeper.term
    _log.info("leading", key=term.key, epoch=term.epoch)
    working = asyncio.ensure_future(work(term))
    keeping = asyncio.create_task(keeper.keep())
    try:
        await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            _log.warning("no longer leading", key=term.key, epoch=term.epoch, cause=keeping.result())
    finally:
        working.cancel()
        await asyncio.wait({working})  # the lock is not given up while the work still runs
        keeping.cancel()
        await asyncio.wait({keeping})
        await keeper.release()
    return _came_to_its_end(working, term)


def _came_to_its_end(working: "asyncio.Future[None]", term: Term) -> bool:
    if working.cancelled():
        return False
    error = working.exception()
    if error is None:
        return True
    if isinstance(error, Fenced) or (isinstance(error, ArteryError) and error.temporary):
        _log.warning("the leader's work ended, contending again", key=term.key, error=str(error))
        return False
    raise error


class _Keeper:
    """Keeps a term by renewing it."""

    def __init__(self, lock: LeaderLock, term: Term, ttl_s: float, monotonic: Callable[[], float]) -> None:
        self.term = term
        self._lock = lock
        self._ttl_s = ttl_s
        self._monotonic = monotonic

    def _left_s(self) -> float:
        """Until the work must be told to stop: a little before the deadline, so that it can."""
        return max(0.0, self.term.deadline - 0.05 * self._ttl_s - self._monotonic())

    async def keep(self) -> str:
        """Return why the term cannot be kept, in time for the work to stop before the deadline."""
        wait_s = self._ttl_s / 3
        while (left_s := self._left_s()) > 0:
            await asyncio.sleep(min(wait_s, left_s))
            wait_s = self._ttl_s / 3
            try:
                async with asyncio.timeout(self._left_s()):
                    renewed = await self._lock.renew(self.term, self._ttl_s)
            except TimeoutError:
                break
            except ArteryError as error:
                _log.warning("the lock could not be renewed, trying again", key=self.term.key, error=str(error))
                wait_s = self._ttl_s / 20
                continue
            if renewed is None:
                return "another has taken the lock"
            self.term = renewed
        return "the lock could not be renewed in time"

    async def release(self) -> None:
        with suppress(ArteryError, TimeoutError):  # then it lapses by itself
            async with asyncio.timeout(self._ttl_s / 3):
                await self._lock.release(self.term)
