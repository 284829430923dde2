"""Clients that stop reading, one and then many of them: what that costs those who read, timed, and what memory.

The gateway is a process of its own, under the same traffic all the time. Those who read are timed in slices of half a
second, alone and beside clients that do not read; the median of the slices' p99 is compared within one run.
"""

import asyncio
import json
import os
import re
import socket as sockets
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
from websockets.asyncio.client import ClientConnection, connect

from artery.gateway.limits import LIMITS
from bench.gateway_parts import Program, Target, program, request, trades_of
from bench.gateway_server import BULK, BULK_BYTES
from tests.faults.processes import until
from tests.faults.trial import LONG, Trial

ONCE = True

QUICK, PER_S = 5, 400
SLICE_MS = 500
PUSHED_BYTES = 9_000_000
"""What each client that does not read is sent: more than all buffers on its way hold together."""
BOUND_BYTES = LIMITS.queue_bytes + 4 * LIMITS.flush_bytes
"""What the gateway may keep for one of them."""
OTHER_BYTES = 4 * 1024 * 1024
"""What a process may take beside that while it works: a fraction of what is pushed to a single one."""
MANY = 200 if LONG else 40
FLOOR_MS, WORST_MS = (15.0, 1_000.0) if LONG else (150.0, 5_000.0)
TIMES = 2.0 if LONG else 4.0
"""How much slower others may get. Below the floor the ratio is not judged: a processor that is shared with others makes
such times by itself. Short runs share it with all other tests, so their bounds only tell a gateway that is held up."""


class Quick:
    """A client that reads at once and knows how late each event came."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._task = asyncio.create_task(self._listen())
        self.late: list[tuple[int, int]] = []
        self.seqs: list[int] = []

    async def _listen(self) -> None:
        async for frame in self._socket:
            now_ns = time.monotonic_ns()
            event = json.loads(frame)
            assert event["type"] == "event", event
            self.seqs.append(int(event["data"]["seq"]))
            self.late.append((int(event["data"]["at"]), now_ns))

    async def end(self) -> None:
        await self._socket.close()
        await self._task


async def opened(target: Target, wanted: list[object], *, reads: bool = True) -> ClientConnection:
    """A client that has subscribed; one that does not read has small buffers."""
    sock = sockets.socket()
    if not reads:
        sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", target.port))
    headers = {"Authorization": f"Bearer {target.key}"}
    url = f"ws://127.0.0.1:{target.port}/v1/stream"
    client = await connect(
        url, sock=sock, additional_headers=headers, proxy=None, compression=None, ping_interval=None, max_queue=None
    )
    await client.send(request("subscribe", wanted))
    assert json.loads(await client.recv())["type"] == "subscribed"
    if not reads:
        client.transport.pause_reading()
    return client


class Course:
    """A gateway, those who read from it, and what was sent to those who do not."""

    def __init__(self, server: Program, quick: list[Quick]) -> None:
        self._server = server
        self._quick = quick
        self.newest = 0

    async def timed(self, seconds: float) -> list[float]:
        """The p99 of each slice, in ms, of those who read while events flow for so long."""
        for client in self._quick:
            client.late.clear()
        before = [len(client.seqs) for client in self._quick]
        await self._server.say(f"pace {PER_S} {seconds} {2 * PUSHED_BYTES / BULK_BYTES / seconds}")
        paced, bulks = map(int, await self._server.hear("paced"))
        for client, had in zip(self._quick, before, strict=True):
            await until(lambda client=client, had=had: len(client.seqs) >= had + paced, "everything that was published")
        self.newest += bulks // 2
        return sliced([late for client in self._quick for late in client.late])

    async def end(self) -> None:
        for client in self._quick:
            assert client.seqs == list(range(1, len(client.seqs) + 1)), "somebody who read missed something"
            await client.end()


def sliced(late: list[tuple[int, int]]) -> list[float]:
    """The p99 of each slice of time, of (when it was due, when it came)."""
    slices: dict[int, list[float]] = {}
    for due_ns, came_ns in late:
        slices.setdefault(due_ns // (SLICE_MS * 1_000_000), []).append((came_ns - due_ns) / 1e6)
    return [sorted(found)[len(found) * 99 // 100] for found in slices.values()]


@asynccontextmanager
async def sleepers(target: Target, count: int) -> AsyncIterator[tuple[list[ClientConnection], list[ClientConnection]]]:
    """Clients that do not read: half of them get trades and must be closed, half books, which conflate."""
    wanted = [[{"channel": f"artery:stream:sim:{BULK}", "types": [series]}] for series in ("TRADE", "BOOK_TOPN")]
    traders = [await opened(target, wanted[0], reads=False) for _ in range((count + 1) // 2)]
    watchers = [await opened(target, wanted[1], reads=False) for _ in range((count + 1) // 2)]
    try:
        yield traders, watchers
    finally:
        for client in (*traders, *watchers):
            client.transport.abort()


async def closed_as_slow(target: Target) -> int:
    """How many clients the gateway has closed because they did not read."""
    headers = {"Authorization": f"Bearer {target.key}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
        answer = (await http.get(f"http://127.0.0.1:{target.port}/metrics")).raise_for_status()
    found = re.search(r'^artery_gateway_closed_total\{code="4008"\} ([0-9.]+)', answer.text, re.MULTILINE)
    return int(float(found[1])) if found else 0


async def conflated_to(client: ClientConnection, last: int) -> int:
    """How many gaps a client that wakes up is told of on its way to the newest book; nothing else may be missing."""
    client.transport.resume_reading()
    at, gaps = 0, 0
    async with asyncio.timeout(60):
        while at < last:
            frame = json.loads(await client.recv())
            seq = int(frame["to" if frame["type"] == "gap" else "position"].split(".")[1])
            if frame["type"] == "gap":
                assert frame["reason"] == "slow_client", frame
                assert at in (0, int(frame["from"].split(".")[1])), frame
                gaps += 1
            else:
                assert at in (0, seq - 1), f"{seq} follows {at} without a word"
            at = seq
    return gaps


@asynccontextmanager
async def course(folder: Path) -> AsyncIterator[tuple[Course, Target]]:
    command = [sys.executable, "-m", "bench.gateway_server", "serve", "--folder", str(folder), "--markets", "1"]
    async with program(*command) as server:
        port, key = await server.hear("ready")
        target = Target("ours", server, server, int(port), key=key)
        made = Course(server, [Quick(await opened(target, trades_of([0]))) for _ in range(QUICK)])
        yield made, target
        await made.end()


async def test_those_who_read_hardly_feel_those_who_do_not(trial: Trial, tmp_path: Path) -> None:
    rounds, alone_s, beside_s = trial.pick((1, 2.0, 3.0), (2, 5.0, 20.0))
    alone: list[float] = []
    beside: dict[int, list[float]] = {1: [], MANY: []}
    async with course(tmp_path) as (run, target):
        process = psutil.Process(target.server.pid)
        await run.timed(0.5)  # what is slow only once
        for slow in (1, MANY) * rounds:
            alone += await run.timed(alone_s)
            before, closed = process.memory_full_info().uss, await closed_as_slow(target)
            async with sleepers(target, slow) as (traders, watchers):
                beside[slow] += await run.timed(beside_s)
                grown = process.memory_full_info().uss - before
                assert grown <= (slow + 1) * BOUND_BYTES + OTHER_BYTES, (
                    f"{slow} clients took {grown >> 20} MiB; {trial.again}"
                )
                assert await closed_as_slow(target) - closed == len(traders), trial.again
                assert await conflated_to(watchers[-1], run.newest) >= 1
    quiet = statistics.median(alone)
    for slow, found in beside.items():
        busy = statistics.median(found)
        told = f"p99 {quiet:.1f} ms alone, {busy:.1f} ms beside {slow} who do not read (at worst {max(found):.0f} ms)"
        print(f"{told}, {busy / quiet:.2f} times; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        assert busy <= max(TIMES * quiet, FLOOR_MS), f"{told}; {trial.again}"
        assert max(found) <= max(TIMES * max(alone), WORST_MS), f"{told}; {trial.again}"
