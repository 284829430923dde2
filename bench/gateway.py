"""What the gateway delivers, beside Fastify and nats-server: same events, same clients, in turns."""

import asyncio
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from bench import gateway_replay
from bench.gateway_parts import STEP, Parts, Program, Target, compiled, request, trades_of
from bench.rows import Row, row
from tests.servers import RedisServer

CONNECTIONS = 200
ROUNDS, FLOOD_S, WARM_S = 5, 2.0, 0.5
PACE_S = 4.0
IDLE = 10_000
CROWDS = {10: 6_000, 100: 2_000, 1_000: 400, 5_000: 150}
"""So many clients, and the events that each of them is sent in a round."""
CHANNELS_A_FRAME, CHURN_S = 50, 3.0


async def flood(load: Program, target: Target, connections: int, seconds: float) -> float:
    """Deliveries a second once it runs; whoever loses or repeats one ends the run."""
    start = before = await counted(load)
    published = 0
    times: list[tuple[int, int]] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds or len(times) < 3:
        while published + STEP <= (before - start) // connections + target.window:
            await target.publisher.say(f"burst {STEP}")
            published += STEP
        got, at_ns = await load.hear("got")
        before = int(got)
        if passed >= min(WARM_S, seconds / 2):
            times.append((before, int(at_ns)))
    await until_all(load, start + published * connections)
    (first, first_ns), (last, last_ns) = times[0], times[-1]
    return (last - first) / (last_ns - first_ns) * 1e9


async def counted(load: Program) -> int:
    await load.say("count")
    return int((await load.hear("counted"))[0])


async def until_all(load: Program, wanted: int, every_s: float = 0.02) -> None:
    """Wait until every delivery has arrived; one too many or too few is an error."""
    deadline = time.monotonic() + 30
    while (got := await counted(load)) != wanted:
        if got > wanted or time.monotonic() > deadline:
            raise SystemExit(f"the run broke: {got} of {wanted} deliveries")
        await asyncio.sleep(every_s)


async def fanout(parts: Parts, stack: AsyncExitStack, redis_url: str) -> list[Row]:
    """200 clients each, all of them at once connected, one server at a time at work."""
    found = [await parts.ours("ours"), await parts.fastify(), await parts.nats()]
    if redis_url:
        found.insert(1, await parts.ours("redis", live_url=redis_url))
    targets = [target for target in found if target is not None]
    ours = parts.written("ours", [request("subscribe", trades_of(range(6)))])
    nats = parts.written("nats", ['CONNECT {"verbose":false}|SUB events 1|PING|'])
    loads = {
        target.name: await stack.enter_async_context(
            parts.clients(target, CONNECTIONS, nats if target.kind == "nats" else ours)
        )
        for target in targets
    }
    rates: dict[str, list[float]] = {target.name: [] for target in targets}
    for number in range(ROUNDS):
        for target in targets if number % 2 else reversed(targets):
            load = loads[target.name]
            rates[target.name].append(await flood(load, target, CONNECTIONS, FLOOD_S))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    per_s = medians["ours"] / CONNECTIONS / 2
    return [*_fanout_rows(medians), *await latency(targets[0], loads["ours"], per_s)]


def _fanout_rows(medians: dict[str, float]) -> list[Row]:
    unit = "deliveries/s"
    rows = []
    if "fastify" in medians:
        theirs = round(medians["fastify"])
        rows.append(row("gateway.fanout.fastify", medians["ours"], unit, ">= 10", "Fastify", theirs))
    if "nats" in medians:
        theirs = round(medians["nats"])
        rows.append(row("gateway.fanout.nats", medians["ours"], unit, ">= 0.8", "nats-server", theirs))
        if "redis" in medians:
            rows.append(row("gateway.fanout_redis.nats", medians["redis"], unit, ">= 0.8", "nats-server", theirs))
    return rows or [row("gateway.fanout", medians["ours"], unit)]


async def latency(target: Target, load: Program, per_s: float) -> list[Row]:
    """How old an event is at its clients, at half of what the gateway can do."""
    found = []
    for _ in range(3):
        await load.say("mark")
        await target.publisher.say(f"pace {per_s} {PACE_S / 2}")
        await target.publisher.hear("paced")
        await asyncio.sleep(0.2)
        await load.say("report")
        found.append([int(word) for word in await load.hear("latency")])
    return [row("gateway.fanout_p99_ms", statistics.median(p99 for _, p99, _, _ in found) / 1_000, "ms", "< 20")]


async def idle(parts: Parts) -> list[Row]:
    """Memory of a connection that has subscribed and hears nothing."""
    count = min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 500)
    if count < IDLE:
        print(f"a process may open too few files here, so {count} connections stand for {IDLE}", file=sys.stderr)
    target = await parts.ours("idle")
    process = psutil.Process(target.server.pid)
    one = parts.written("one", [request("subscribe", trades_of([0]))])
    async with parts.clients(target, 100, one):
        before = process.memory_full_info().uss
        async with parts.clients(target, count, one):
            grown = process.memory_full_info().uss - before
    await target.server.end()
    return [row("gateway.idle_kib", grown / count / 1_024, "KiB", "<= 20")]


async def churn(parts: Parts) -> list[Row]:
    """Channels that clients subscribe to and leave, each client waiting for its answer."""
    target = await parts.ours("churn", markets=1_000)
    sets = [[number * 4 + n for n in range(CHANNELS_A_FRAME)] for number in range(CONNECTIONS)]
    names = [[f"artery:stream:sim:M{number:03d}" for number in chosen] for chosen in sets]
    first = parts.written("subscribe", [request("subscribe", chosen) for chosen in names])
    second = parts.written("unsubscribe", [request("unsubscribe", chosen) for chosen in names])
    async with parts.clients(target, CONNECTIONS, first, second) as load:
        await load.say(f"churn {CHURN_S}")
        frames, seconds, refused = await load.hear("churned")
    await target.server.end()
    if int(refused):
        print(f"{refused} of {frames} frames were refused", file=sys.stderr)
    rate = (int(frames) - int(refused)) * CHANNELS_A_FRAME / float(seconds)
    return [row("gateway.subscribe_per_s", rate, "channels/s", ">= 20000")]


async def growth(parts: Parts, stack: AsyncExitStack) -> list[Row]:
    """What an event costs in processor time: once, and for each client that gets it."""
    one = parts.written("one", [request("subscribe", trades_of([0]))])
    ready = []
    for count in CROWDS:
        target = await parts.ours(f"growth{count}", markets=1)
        ready.append((count, target, await stack.enter_async_context(parts.clients(target, count, one))))
    costs: dict[int, list[float]] = {count: [] for count in CROWDS}
    for number in range(ROUNDS):
        for count, target, load in ready if number % 2 else reversed(ready):
            costs[count].append(await cost_s(target, load, count, CROWDS[count]))
    return _growth_rows({count: statistics.median(found) for count, found in costs.items()})


def _growth_rows(event_s: dict[int, float]) -> list[Row]:
    """The rows from the processor time of one event with so many clients.

    An event costs something once, which weighs on each delivery where there are ten: there a delivery is dearest. What
    is held to be flat is a delivery to a hundred clients and more.
    """
    few, some, most, many = event_s
    each_us = {count: taken_s / count * 1e6 for count, taken_s in event_s.items()}
    crowded = [each_us[count] for count in (some, most, many)]
    delivery_us = statistics.median(crowded)
    off = max(abs(each / delivery_us - 1) for each in crowded)
    return [
        row("gateway.event_us", (event_s[few] - few * (event_s[some] - event_s[few]) / (some - few)) * 1e6, "µs"),
        row("gateway.delivery_us", delivery_us, "µs"),
        row("gateway.delivery_off", off, "of it", "<= 0.2"),
        row("gateway.growth", each_us[many] / each_us[few], "times", "<= 1.2"),
    ]


async def cost_s(target: Target, load: Program, connections: int, events: int) -> float:
    """Processor time of the gateway for one event, events coming in fives."""
    process = psutil.Process(target.server.pid)
    start, before = await counted(load), _cpu_s(process)
    for done in range(0, events, 5):
        await target.publisher.say("burst 5")
        await until_all(load, start + (done + 5) * connections, 0.001)
    return (_cpu_s(process) - before) / events


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def measure(only: Sequence[str] = ("fanout", "idle", "churn", "growth", "replay")) -> list[Row]:
    """Everything that the gateway promises of its speed; peers that cannot be had are left out with a line."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="artery-bench-")))
        load = compiled(folder)
        if load is None:
            return []
        parts = Parts(folder, load, stack)
        redis_url = ""
        if shutil.which("redis-server"):
            redis = RedisServer(folder / "redis")
            stack.callback(redis.end)
            redis_url = redis.new_url()
        rows: list[Row] = []
        if "fanout" in only:
            async with AsyncExitStack() as inner:
                rows += await fanout(parts, inner, redis_url)
        if "idle" in only:
            rows += await idle(parts)
        if "churn" in only:
            rows += await churn(parts)
        if "growth" in only:
            async with AsyncExitStack() as inner:
                rows += await growth(parts, inner)
        if "replay" in only:
            rows += await gateway_replay.measure(parts)
        return rows
