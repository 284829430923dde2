"""What tests of a log do again and again: number entries, and wait for a server that was hurt."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import pytest

from artery.bus.base import Bus, Entry
from artery.bus.open import open_bus
from artery.errors import ArteryError, Unavailable

WAIT_S = 60.0
SAID_S = 3.0
"""In what time a call says that the server is away."""
TICK_S = 0.02

T = TypeVar("T")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(serve: Serve) -> AsyncIterator[int]:
    """The port of a server whose connections end with it, whatever its clients do."""
    under_way: set[asyncio.Task[None] | None] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(task := asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            under_way.discard(task)
            writer.transport.abort()

    running = await asyncio.start_server(connection, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        await asyncio.sleep(0.05)  # whoever was just let in begins, and can be ended
        left = [task for task in under_way if task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await running.wait_closed()


def numbered(*numbers: int) -> list[dict[str, str]]:
    return [{"n": str(number), "coin": "BTC"} for number in numbers]


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.fields["n"]) for entry in entries]


@asynccontextmanager
async def lateness() -> AsyncIterator[Callable[[], float]]:
    """By how much this process's own clocks were late at worst, which is what a busy machine adds to any bound."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            worst = max(worst, time.monotonic() - due)

    ticking = asyncio.create_task(tick())
    try:
        yield lambda: worst
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


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
