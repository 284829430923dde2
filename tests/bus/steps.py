"""What tests of a log do again and again: number entries, and wait for a server that was hurt."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from artery.bus.base import Bus, Entry
from artery.bus.open import open_bus
from artery.errors import ArteryError, Unavailable

WAIT_S = 60.0

T = TypeVar("T")


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"n": str(number), "coin": "BTC"} for number in numbers]


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.fields["n"]) for entry in entries]


async def soon(call: Awaitable[object]) -> float:
    """How long a call takes to say that the server is away."""
    start = time.monotonic()
    with pytest.raises(Unavailable) as error:
        await call
    assert error.value.temporary
    return time.monotonic() - start


async def steady(call: Callable[[], Awaitable[T]]) -> T:
    """The outcome, once the server is there and done with what was changed."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(Unavailable):
                return await call()


async def again(bus: Bus) -> None:
    """Wait until the server answers, and takes what is written."""
    await steady(lambda: bus.head("trade"))
    await steady(lambda: bus.append("probe", [{"n": "1"}]))


async def said(url: str, kind: type[ArteryError]) -> str:
    """What is said when this server is asked for something; always one sentence, never the password."""
    bus = open_bus(url)
    try:
        with pytest.raises(kind) as error:
            await bus.append("trade", [{"n": "1"}])
    finally:
        await bus.close()
    text = str(error.value)
    assert "\n" not in text
    assert "wrong-secret" not in text
    return text
