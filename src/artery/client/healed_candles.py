"""Candles that were lost between the relay and a client, read from the gateway."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pyarrow as pa

from artery.client.frames import Gap
from artery.client.healed import AGAIN_S, TRIES
from artery.errors import ArteryError
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.series import Position

LATE_MS = 86_400_000
"""So late a trade may still correct its candle: a correction that was lost is looked for as far back."""

Read = Callable[[int, int], Awaitable[Any]]
"""`Artery.history` of the same market and period: from, until."""


async def healed_candles(heard: AsyncIterator[Candle | Gap], period: Period, read: Read) -> AsyncIterator[Candle | Gap]:
    """The same candles; where versions were missed, what the gateway has of that time comes before what follows. A gap
    stays where it lacks a closed candle too."""
    async for item in heard:
        if isinstance(item, Gap):
            for each in await mend(item, period, read):
                yield each
        else:
            yield item


async def mend(gap: Gap, period: Period, read: Read) -> list[Candle | Gap]:
    """The candles of the gap, asked for several times while one that must be closed is not there."""
    found: list[Candle] = []
    for tries in range(TRIES):
        if tries:
            await asyncio.sleep(AGAIN_S)
        try:
            rows = await read(max(0, gap.from_ms - LATE_MS), gap.to_ms)
        except ArteryError:
            continue  # the gateway may be away for the moment
        found = missed(gap, candles_of(rows, gap, period))
        if is_whole(gap, period, found):
            return [*found]
    return [*found, gap]


def missed(gap: Gap, candles: list[Candle]) -> list[Candle]:
    """Those that may have been missed: all of the gap's time, and whatever was corrected before it; but not the one
    that follows the gap, of which the client has its own version. Pure."""
    follows_ms = Position.parse(gap.to_position).event_ts
    return [
        candle for candle in candles if candle.start_ts != follows_ms and (candle.start_ts >= gap.from_ms or candle.rev)
    ]


def is_whole(gap: Gap, period: Period, found: list[Candle]) -> bool:
    """Whether every candle of the gap's time but its last is there and closed. Pure."""
    follows_ms = Position.parse(gap.to_position).event_ts
    closed = {candle.start_ts for candle in found if candle.closed} | {follows_ms}
    return all(start_ms in closed for start_ms in range(gap.from_ms, gap.to_ms - period.ms, period.ms))


def candles_of(rows: pa.Table, gap: Gap, period: Period) -> list[Candle]:
    """The gateway's rows as candles of the gap's market, without a place in the series."""
    return [
        Candle(
            provider=gap.channel.provider,
            coin=gap.channel.market,
            event_ts=row["start"],
            period=period,
            start_ts=row["start"],
            **{name: row[name] for name in ("o", "h", "l", "c", "v", "n", "closed", "rev")},
        )
        for row in rows.to_pylist()
    ]
