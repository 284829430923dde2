"""What it costs to deliver an event, the more subscribers it has: by processor time, all else being equal."""

import statistics
import time

from bench.gateway_parts import Parts, Program, Target, arrived, counted, request, trades_of
from bench.rows import Row, row

CLIENTS = 5_000
CROWDS = (10, 100, 1_000, 5_000)
"""Subscribers of a market. Every client follows one market of each size."""
ROUNDS, BURSTS = 7, 20
ALONE, ALONE_EVENTS = 10, 6_000


def markets(crowd: int) -> range:
    """The markets that have so many subscribers each: one for every client."""
    first = sum(CLIENTS // smaller for smaller in CROWDS if smaller < crowd)
    return range(first, first + CLIENTS // crowd)


def wanted() -> list[str]:
    """What client after client subscribes to."""
    of_each = [markets(crowd) for crowd in CROWDS]
    return [
        request("subscribe", trades_of([part[number % len(part)] for part in of_each]))
        for number in range(len(of_each[0]))
    ]


async def measure(parts: Parts) -> list[Row]:
    """Rounds of each crowd in turns: every round gives each client one event of its market of that size."""
    target = await parts.ours("growth", markets=sum(len(markets(crowd)) for crowd in CROWDS))
    costs: dict[int, list[float]] = {crowd: [] for crowd in CROWDS}
    async with parts.clients(target, CLIENTS, parts.written("growth", wanted())) as load:
        for number in range(ROUNDS + 1):
            for crowd in CROWDS if number % 2 else reversed(CROWDS):
                part = markets(crowd)
                taken = await cost_s(target, load, f"each {part.start} {len(part)}", CLIENTS, BURSTS)
                if number:  # the first round warms up
                    costs[crowd].append(taken / CLIENTS)
    await target.server.end()
    return _rows({crowd: statistics.median(found) * 1e6 for crowd, found in costs.items()}) + await alone(parts)


def _rows(each_us: dict[int, float]) -> list[Row]:
    middle = statistics.median(each_us.values())
    off = max(abs(each / middle - 1) for each in each_us.values())
    return [
        *(row(f"gateway.delivery_us.{crowd}", each, "µs") for crowd, each in each_us.items()),
        row("gateway.delivery_off", off, "of it", "<= 0.2"),
    ]


async def alone(parts: Parts) -> list[Row]:
    """A gateway of few clients: what an event costs once weighs most there. Five events at a time."""
    target = await parts.ours("alone", markets=1)
    one = parts.written("alone", [request("subscribe", trades_of([0]))])
    async with parts.clients(target, ALONE, one) as load:
        taken = await cost_s(target, load, "burst 5", 5 * ALONE, ALONE_EVENTS // 5)
    await target.server.end()
    return [row("gateway.delivery_us.alone", taken / 5 / ALONE * 1e6, "µs")]


async def cost_s(target: Target, load: Program, words: str, deliveries: int, times: int) -> float:
    """Processor time of the gateway for these words to its publisher, all deliveries made, said so many times."""
    start, before = await counted(load), _cpu_s(target.server.pid)
    for done in range(1, times + 1):
        await target.publisher.say(words)
        await arrived(load, start + done * deliveries, 0.001)
    return (_cpu_s(target.server.pid) - before) / times


def _cpu_s(pid: int) -> float:
    """All that a process has used, to the nanosecond: its clock's number, as Linux makes it from its own."""
    return time.clock_gettime(~pid << 3 | 2)
