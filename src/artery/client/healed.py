"""Trades that were lost between the relay and a client, read from the gateway and put where they belong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pyarrow as pa

from artery.client.frames import Gap
from artery.client.relayed import MISSED
from artery.errors import ArteryError
from artery.model.events import Trade
from artery.model.series import Position

TRIES, AGAIN_S = 5, 0.4
"""A trade that a client has heard of is on the log; a gateway may need a moment to have read that far."""
SLACK_MS = 60_000
"""A trade's own time may lie so far from its neighbours': venues do not send in the order of time."""
FAILOVER = "failover"

Read = Callable[..., Awaitable[Any]]
"""`Artery.trades`: a market, from, until."""


async def healed(ticks: AsyncIterator[Trade | Gap], read: Read) -> AsyncIterator[Trade | Gap]:
    """The same trades, with those that were missed in their places; what cannot be had stays a gap."""
    async for item in ticks:
        if isinstance(item, Gap) and item.reason == MISSED:
            for each in await mend(item, read):
                yield each
        else:
            yield item


async def mend(gap: Gap, read: Read) -> list[Trade | Gap]:
    """What lies in the gap, asked for several times if it is not all there yet."""
    found: list[Trade | Gap] = [gap]
    for tries in range(TRIES):
        if tries:
            await asyncio.sleep(AGAIN_S)
        try:
            rows = await read(str(gap.channel), gap.from_ms - SLACK_MS, gap.to_ms + SLACK_MS)
        except ArteryError:
            continue  # the gateway may be away for the moment
        found = fill(gap, trades_of(rows, gap))
        if not any(isinstance(item, Gap) and item.reason == MISSED for item in found):
            break
    return found


def fill(gap: Gap, trades: list[Trade]) -> list[Trade | Gap]:
    """The trades between the gap's ends in their order, and a gap wherever one is still missing. Pure."""
    last, end = Position.parse(gap.from_position), Position.parse(gap.to_position)
    between = {
        (trade.epoch, trade.seq): trade
        for trade in trades
        if (last.epoch, last.seq) < (trade.epoch, trade.seq) < (end.epoch, end.seq)
    }
    found: list[Trade | Gap] = []
    for _, trade in sorted(between.items()):
        found += _hole(gap, last, trade.position)
        found.append(trade)
        last = trade.position
    return found + _hole(gap, last, end)


def trades_of(rows: pa.Table, gap: Gap) -> list[Trade]:
    """The gateway's rows as trades of the gap's market."""
    return [
        Trade(
            provider=gap.channel.provider,
            coin=gap.channel.market,
            event_ts=row["ts"],
            epoch=row["epoch"],
            seq=row["seq"],
            ts=row["ts"],
            tid=row["tid"],
            px=row["px"],
            sz=row["sz"],
            side=row["side"],
        )
        for row in rows.to_pylist()
    ]


def _hole(gap: Gap, last: Position, here: Position) -> list[Trade | Gap]:
    """What is missing between two trades; where the leader changed, nobody can tell whether something is."""
    if here.follows(last):
        return []
    changed = here.epoch != last.epoch and here.seq == 1
    return [
        msgspec.structs.replace(
            gap,
            reason=FAILOVER if changed else MISSED,
            from_position=str(last),
            to_position=str(here),
            from_ms=last.event_ts,
            to_ms=here.event_ts,
        )
    ]
