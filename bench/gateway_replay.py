"""How fast the past reaches a client that comes back, and what that costs the clients that are live."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import count

from bench.gateway_parts import Parts, Program, Target, request, trades_of
from bench.rows import Row, row

CONNECTIONS = 200
TRADES = 180_000
"""Trades of one market in the past: about what one replay may carry."""
MARKETS = 3
LIVE_PER_S, PACE_S = 1_000, 4.0
ROUNDS = 5


async def measure(parts: Parts) -> list[Row]:
    """One client after another asks for a market's past, while 200 others are live."""
    target = await parts.ours("replay", past=TRADES, past_markets=MARKETS)
    ours = parts.written("live", [request("subscribe", trades_of(range(6)))])
    async with parts.clients(target, CONNECTIONS, ours) as live:
        rates: list[float] = []
        numbers = count()
        quiet_us, busy_us = [], []
        for _ in range(ROUNDS):
            quiet_us.append(await p99_us(target, live))
            busy_us.append(await p99_us(target, live, lambda: replayed(parts, target, next(numbers), rates)))
    await target.server.end()
    return [
        row("gateway.replay_per_s", statistics.median(rates), "events/s", ">= 200000"),
        row("gateway.replay_live_p99", statistics.median(busy_us) / statistics.median(quiet_us), "times", "< 2"),
    ]


async def p99_us(target: Target, live: Program, beside: Callable[[], Awaitable[None]] | None = None) -> int:
    """The live clients' p99 for a while, in which something else happens again and again, to its very end."""
    await live.say("mark")
    await target.publisher.say(f"pace {LIVE_PER_S} {PACE_S}")
    paced = asyncio.create_task(target.publisher.hear("paced"))
    while beside is not None and not paced.done():
        await beside()
    await paced
    await asyncio.sleep(0.2)
    await live.say("report")
    return int((await live.hear("latency"))[1])


async def replayed(parts: Parts, target: Target, number: int, rates: list[float]) -> None:
    """Events a second, from before the client connects to its last event; another market each time."""
    wanted = {"channel": f"artery:stream:sim:P{number % MARKETS:03d}", "types": ["TRADE"], "since": {"ms": 0}}
    first = parts.written(f"since{number}", [request("subscribe", [wanted])])
    began_ns = time.monotonic_ns()
    async with parts.clients(target, 1, first) as load:
        while True:
            got, at_ns = await load.hear("got")
            if int(got) >= TRADES:
                break
    rates.append(TRADES / (int(at_ns) - began_ns) * 1e9)
