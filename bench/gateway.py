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

from bench import gateway_growth, gateway_replay
from bench.gateway_parts import STEP, Parts, Program, Target, arrived, compiled, counted, request, trades_of
from bench.rows import Row, row
from tests.servers import RedisServer

CONNECTIONS = 200
ROUNDS, FLOOD_S, WARM_S = 5, 2.0, 0.5
PACE_S = 4.0
IDLE = 10_000
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
    await arrived(load, start + published * connections)
    (first, first_ns), (last, last_ns) = times[0], times[-1]
    return (last - first) / (last_ns - first_ns) * 1e9


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
            rows += await gateway_growth.measure(parts)
        if "replay" in only:
            rows += await gateway_replay.measure(parts)
        return rows
