"""Trying again what failed for the moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from artery.errors import ArteryError
from artery.telemetry import logger

Result = TypeVar("Result")
_log = logger("ingest")


async def persist(
    call: Callable[[], Awaitable[Result]],
    what: str,
    *,
    first_s: float = 0.05,
    most_s: float = 5.0,
    trouble: Callable[[str], None] = lambda _reason: None,
) -> Result:
    """Call until it succeeds; a temporary error is waited out, any other is raised.

    `trouble` is told what is wrong while it lasts, and the empty text when it is over.
    """
    wait_s = first_s
    while True:
        try:
            result = await call()
        except ArteryError as error:
            if not error.temporary:
                raise
            if wait_s == first_s:
                _log.warning(f"{what} fails for the moment and is tried again", reason=str(error))
            trouble(f"{what}: {error}")
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(most_s, wait_s * 2)
            continue
        if wait_s != first_s:
            _log.info(f"{what} works again")
            trouble("")
        return result
