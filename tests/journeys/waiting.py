"""Waiting for a condition, with an end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


async def until(
    what: str, look: Callable[[], Awaitable[Found]], *, within_s: float = 120.0, every_s: float = 0.25
) -> Found:
    """The first result of `look` that is true."""
    end = time.monotonic() + within_s
    while not (found := await look()):
        assert time.monotonic() < end, f"{what}: not within {within_s:.0f} s"
        await asyncio.sleep(every_s)
    return found
