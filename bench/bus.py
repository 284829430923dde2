"""The log beside the plain drivers, in batches of 100 trades; and what length and many markets cost."""

import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.model.codec import encode
from artery.model.events import Trade
from bench.bus_peers import CONSUMER, GROUP, Batch, Peer, RawKafka, RawRedis, RawSqlite
from bench.rows import Row, row
from tests.kafka import JARS, KafkaServer
from tests.servers import RedisServer

BATCH = 100
ROUNDS, BATCHES = 25, 40
TURNS = 300
"""Single batches in turns, where two of our own logs are compared: a stall of the disk then decides nothing."""
SHORT, LONG = 10_000, 1_000_000
FILL = 5_000
FLAT = "<= 1.2"
APPEND_GOALS = {"sqlite": ">= 0.7", "redis": ">= 0.8", "kafka": ">= 0.8"}
READ_GOAL = ">= 0.8"

Step = Callable[[], Awaitable[None]]


def trades(markets: int) -> Iterator[Batch]:
    """Batches of trades as ingest writes them, for ever."""
    coins = [f"COIN{n:03d}" for n in range(markets)]
    made = [encode(_trade(n, coins[n % markets])) for n in range(max(2_000, 2 * markets))]
    return itertools.cycle([made[at : at + BATCH] for at in range(0, len(made), BATCH)])


def _trade(n: int, coin: str) -> Trade:
    ts = 1_730_000_000_000 + n * 37
    px, sz = Decimal(4_325_000 + n * 13 % 9_999) / 100, Decimal(n * 7 % 10_000 + 1) / 10_000
    return Trade(provider="hyperliquid_perp", event_ts=ts + 11, epoch=1_729_999_000_000, seq=n + 1, coin=coin, ts=ts,
                 tid=str(931_000_000_000_000 + n), px=px, sz=sz, side="B" if n % 3 else "S")  # fmt: skip


class Ours:
    """Our log as its callers use it."""

    def __init__(self, bus: Bus, batches: Iterator[Batch]) -> None:
        self._bus, self._batches = bus, batches
        self._read: list[str] = []

    async def fill(self, entries: int) -> None:
        """Make the stream this long, and its group stand in the middle."""
        middle = "0"
        for done in range(0, entries, FILL):
            parts = itertools.islice(self._batches, FILL // BATCH)
            ids = await self._bus.append("trade", list(itertools.chain.from_iterable(parts)))
            middle = ids[0] if done <= entries // 2 else middle
        await self._bus.ensure_group("trade", GROUP, middle)

    async def append(self) -> None:
        await self._bus.append("trade", next(self._batches), writer="bench", epoch=1)

    async def read(self) -> None:
        """The next page, and the last one is done: what a consumer's loop asks for."""
        entries = await self._bus.read_new("trade", GROUP, CONSUMER, BATCH, done=self._read)
        self._read = [entry.id for entry in entries]
        if len(entries) != BATCH:
            raise SystemExit("the log gave less than it was asked for")

    async def end(self) -> None:
        """Ack the last page, and see that every other one was."""
        if self._read and await self._bus.ack("trade", GROUP, self._read) != BATCH:
            raise SystemExit("a page was acked before it was said to be done")
        if (await self._bus.group("trade", GROUP)).pending:
            raise SystemExit("a page that was done was not acked")


class Theirs:
    """The plain driver, called in the same way."""

    def __init__(self, peer: Peer, batches: Iterator[Batch]) -> None:
        self._peer, self._batches = peer, batches

    async def append(self) -> None:
        self._peer.append(next(self._batches))

    async def read(self) -> None:
        if self._peer.read(BATCH) != BATCH:
            raise SystemExit("the plain driver gave less than it was asked for")


async def interleaved(one: Step, other: Step, rounds: int = ROUNDS, batches: int = BATCHES) -> tuple[float, float]:
    """Seconds a batch of each: rounds of one and the other in turns, whoever began last time second; the median."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for who in (0, 1) if number % 2 else (1, 0):
            step = (one, other)[who]
            began = time.perf_counter()
            for _ in range(batches):
                await step()
            if number:  # the first round warms up
                times[who].append((time.perf_counter() - began) / batches)
    return statistics.median(times[0]), statistics.median(times[1])


async def beside_peer(name: str, bus: Bus, peer: Peer) -> list[Row]:
    """Append, then read with a group and ack, beside the plain driver."""
    await bus.ensure_group("trade", GROUP)
    ours, theirs = Ours(bus, trades(6)), Theirs(peer, trades(6))
    rows = []
    for what, one, other, goal in (
        ("append", ours.append, theirs.append, APPEND_GOALS[name]),
        ("read", ours.read, theirs.read, READ_GOAL),
    ):
        us, them = await interleaved(one, other)
        rows.append(row(f"bus.{what}.{name}", BATCH / us, "events/s", goal, peer.name, round(BATCH / them)))
    await ours.end()
    return rows


async def flat(name: str, figure: str, small: Ours, large: Ours) -> list[Row]:
    """What an event costs at the large end, over what it costs at the small one."""
    rows = []
    for what, one, other in (("append", small.append, large.append), ("read", small.read, large.read)):
        little, much = await interleaved(one, other, TURNS, 1)
        rows.append(row(f"bus.{figure}.{what}.{name}", much / little, "times", FLAT))
    await small.end()
    await large.end()
    return rows


async def measured(name: str, places: Iterator[Bus], peer: Peer, long: int) -> list[Row]:
    """Every figure of one backend; each log in a place of its own."""
    logs = list(itertools.islice(places, 5))
    try:
        rows = await beside_peer(name, logs[0], peer)
        short, grown = Ours(logs[1], trades(6)), Ours(logs[2], trades(6))
        one, thousand = Ours(logs[3], trades(1)), Ours(logs[4], trades(1_000))
        for ours, entries in ((short, SHORT), (grown, long), (one, SHORT), (thousand, SHORT)):
            await ours.fill(entries)
        rows += await flat(name, "growth", short, grown)
        rows += await flat(name, "markets", one, thousand)
        return rows
    finally:
        peer.close()
        for log in logs:
            await log.close()


async def measure(long: int = LONG) -> list[Row]:
    """SQLite, and Redis and Kafka if they are there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="artery-bench-")))
        places = (open_bus(f"sqlite:///{folder}/{number}.db") for number in itertools.count())
        rows = await measured("sqlite", places, RawSqlite(folder), long)
        rows += await redis(stack, folder, long)
        return rows + await kafka(stack, folder, long)


async def redis(stack: ExitStack, folder: Path, long: int) -> list[Row]:
    if shutil.which("redis-server") is None:
        print("redis-server is not here, so its figures are left out", file=sys.stderr)
        return []
    server = RedisServer(folder / "redis", "--auto-aof-rewrite-percentage", "0")
    stack.callback(server.end)
    raw = RawRedis(server.new_url())
    return await measured("redis", (open_bus(server.new_url()) for _ in itertools.count()), raw, long)


async def kafka(stack: ExitStack, folder: Path, long: int) -> list[Row]:
    if not (JARS / ".complete").exists():
        print(
            "the Kafka broker's jars are not here (scripts/jars broker), so its figures are left out", file=sys.stderr
        )
        return []
    server = KafkaServer(folder / "kafka")
    stack.callback(server.end)
    url = server.running_url()
    places = (open_bus(url, server.new_base()) for _ in itertools.count())
    return await measured("kafka", places, RawKafka(url.removeprefix("kafka://")), long)
