"""Calls from Spark's threads into the event loop that owns bus and store."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from artery.errors import ArteryError, Unavailable
from artery.telemetry import logger

T = TypeVar("T")
_log = logger("pipeline")
WAIT_S = 30.0
PATIENCE_S = 60.0
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)


class Calls:
    """Runs coroutines on the loop for threads, which wait for the result; a temporary error is tried again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopped = threading.Event()

    def stop(self) -> None:
        """No call waits any longer."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def pause(self, wait_s: float) -> None:
        """Wait a while; `Unavailable` if the pipeline stops meanwhile."""
        if self._stopped.wait(wait_s):
            raise Unavailable("the pipeline is stopping")

    def __call__(self, make: Callable[[], Coroutine[Any, Any, T]], doing: str) -> T:
        deadline = time.monotonic() + PATIENCE_S
        tries = 0
        while True:
            try:
                return self._once(make)
            except TimeoutError:
                error: ArteryError = Unavailable(f"{doing} took longer than {WAIT_S:.0f} s")
            except ArteryError as failed:
                error = failed
            if not error.temporary or self.stopped or time.monotonic() > deadline:
                raise error
            if tries == 0:
                _log.warning(f"{doing} failed, trying again", error=str(error))
            if self._stopped.wait(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)]):
                raise error
            tries += 1

    def _once(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.stopped:
            raise Unavailable("the pipeline is stopping")
        future = asyncio.run_coroutine_threadsafe(make(), self._loop)
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            future.cancel()
            raise
