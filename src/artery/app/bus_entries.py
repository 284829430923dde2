"""Entries of a stream for people: from a place on, as they come or at the speed at which they came."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from artery.bus.base import START, Bus, Entry, place
from artery.client.names import moment
from artery.errors import BadInput, PositionLost

PAGE = 500
SPEED_MAX = 1_000_000.0


class Seen(msgspec.Struct, frozen=True):
    """An entry, and when it was appended."""

    id: str
    at_ms: int
    fields: dict[str, str]


class Missing(msgspec.Struct, frozen=True):
    """What was asked for is not there any more; what follows begins after `first`."""

    missing: str
    first: str


async def place_of(bus: Bus, stream: str, after: str, since: str, now_ms: int) -> str:
    """The position to begin after: the one given, the one of a time, or else the head."""
    if after and since:
        raise BadInput("say either --from or --since, not both")
    if since:
        return await bus.find(stream, moment(since, now_ms))
    if after:
        await bus.count_after(stream, after)  # says so if it is no position of this log
    return after or await bus.head(stream)


async def tail(bus: Bus, stream: str, after: str) -> AsyncIterator[Seen | Missing]:
    """What follows a position, then what comes, for ever."""
    while True:
        try:
            async for page in bus.follow(stream, after, PAGE):
                for seen in await _seen(bus, stream, page):
                    yield seen
                after = page[-1].id
        except PositionLost as lost:
            yield Missing(str(lost), lost.first)
            after = lost.first


async def span(bus: Bus, stream: str, after: str) -> AsyncIterator[Seen | Missing]:
    """What follows a position up to where the stream ends now."""
    end = place(await bus.head(stream))
    while place(after) < end or after == START:
        try:
            page = await bus.read(stream, after, PAGE)
        except PositionLost as lost:
            yield Missing(str(lost), lost.first)
            after = lost.first
            continue
        page = [entry for entry in page if place(entry.id) <= end]
        for seen in await _seen(bus, stream, page):
            yield seen
        if not page:
            return
        after = page[-1].id


async def paced(
    items: AsyncIterator[Seen | Missing],
    speed: float,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Seen | Missing]:
    """The same at `speed` times the speed at which they were appended; 0: without waiting."""
    if not 0 <= speed <= SPEED_MAX:
        raise BadInput(f"a speed is from 0 (without waiting) to {SPEED_MAX:.0f}, not {speed}")
    started, first_ms = monotonic(), 0
    async for item in items:
        if isinstance(item, Seen) and speed:
            first_ms = first_ms or item.at_ms
            wait_s = (item.at_ms - first_ms) / 1_000 / speed - (monotonic() - started)
            if wait_s > 0:
                await sleep(wait_s)
        yield item


async def _seen(bus: Bus, stream: str, page: list[Entry]) -> list[Seen]:
    times = await bus.when(stream, [entry.id for entry in page])
    return [Seen(entry.id, ms, entry.fields) for entry, ms in zip(page, times, strict=True)]
