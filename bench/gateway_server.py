"""The gateway as it is measured: the real one in a process of its own, told on its input what to publish."""

import argparse
import asyncio
import itertools
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

from artery.app.heap import settle
from artery.bus.open import open_bus
from artery.gateway import keys
from artery.gateway.service import Gateway, listening
from artery.lake.reads import Lake
from artery.live.base import Message, PubSub
from artery.live.open import open_pubsub
from artery.settings import Settings
from artery.store.open import open_store
from bench.gateway_past import fill

EVENT_BYTES = 180
BATCH = 50
"""Events that ingest publishes at once, where there are many."""
PACE_S = 0.001
EPOCH = 1_730_000_000_000
BULK = "BULK"
"""The market whose events are large, for clients that do not read."""
BULK_BYTES = 16 * 1024


def event(coin: str, seq: int, at_ns: int) -> bytes:
    """A trade of 180 bytes; the last field says when it was published, if that is wanted."""
    head = (
        b'{"ver":"1","t":"TRADE","coin":"%b","ts":"%d","px":"43250.1","sz":"0.0015","side":"B","seq":"%d","tid":"'
        % (
            coin.encode(),
            EPOCH + seq,
            seq,
        )
    )
    tail = b'","at":"%019d"}' % at_ns
    return head + b"7" * (EVENT_BYTES - len(head) - len(tail)) + tail


class Publisher:
    """Publishes trades of all markets in turns, as ingest does."""

    def __init__(self, pubsub: PubSub, coins: list[str]) -> None:
        self._pubsub = pubsub
        self._next = self._messages(coins)
        self._coins = coins
        self._seqs = dict.fromkeys(coins, 0)
        self._bulky = self._bulks()
        self.at_ns = 0

    def _messages(self, coins: list[str]) -> Iterator[Message]:
        channels = [f"artery:stream:sim:{coin}" for coin in coins]
        for seq in itertools.count(1):
            for coin, channel in zip(coins, channels, strict=True):
                position = f"{EPOCH}.{seq}.{EPOCH + seq}"
                yield Message(channel, "TRADE", position, event(coin, seq, self.at_ns))

    def _bulks(self) -> Iterator[Message]:
        """In turns a snapshot, which may be replaced by its successor, and a trade, which may not."""
        data = b'{"bulk":"%b"}' % (b"7" * BULK_BYTES)
        for seq in itertools.count(1):
            for series in ("BOOK_TOPN", "TRADE"):
                yield Message(f"artery:stream:sim:{BULK}", series, f"{EPOCH}.{seq}.{EPOCH + seq}", data)

    async def burst(self, count: int) -> None:
        """So many at once, in batches."""
        self.at_ns = 0
        for at in range(0, count, BATCH):
            await self._pubsub.publish(list(itertools.islice(self._next, min(BATCH, count - at))))
            await asyncio.sleep(0)

    async def each(self, first: int, count: int) -> None:
        """One of each of these markets, in batches."""
        messages = []
        for coin in self._coins[first : first + count]:
            self._seqs[coin] = seq = self._seqs[coin] + 1
            position = f"{EPOCH}.{seq}.{EPOCH + seq}"
            messages.append(Message(f"artery:stream:sim:{coin}", "TRADE", position, event(coin, seq, 0)))
        for at in range(0, count, BATCH):
            await self._pubsub.publish(messages[at : at + BATCH])
            await asyncio.sleep(0)

    async def pace(self, per_s: float, seconds: float, bulks_per_s: float = 0) -> None:
        """So many a second, evenly, each with the time at which it was due: a gateway that is held up hides nothing."""
        began_ns, done, bulks = time.monotonic_ns(), 0, 0
        while (passed := (time.monotonic_ns() - began_ns) / 1e9) < seconds:
            due, bulks_due = int(passed * per_s) - done, int(passed * bulks_per_s) - bulks
            if due > 0 or bulks_due > 0:
                self.at_ns = began_ns + int((done + 1) / per_s * 1e9)
                bulky = itertools.islice(self._bulky, bulks_due)
                await self._pubsub.publish([*bulky, *itertools.islice(self._next, due)])
                done, bulks = done + due, bulks + bulks_due
            await asyncio.sleep(PACE_S)
        print(f"paced {done} {bulks}", flush=True)


async def obey(publisher: Publisher) -> None:
    """Do what each line of the input says, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, *numbers = line.decode().split()
        if word == "burst":
            await publisher.burst(int(numbers[0]))
        elif word == "each":
            await publisher.each(*map(int, numbers))
        elif word == "pace":
            await publisher.pace(*map(float, numbers))


async def serve(folder: Path, live_url: str, coins: list[str], old: list[str], past: int) -> None:
    """A gateway on a free port, with a publisher of its own, until the input ends; `old` markets have a past."""
    settings = Settings().with_(
        data={"dir": str(folder)}, ingest={"markets": (*coins, *old, BULK)}, gateway={"port": 0, "connects_per_s": 0.0}
    )
    settings.folder.mkdir(parents=True, exist_ok=True)
    bus, store, lake = open_bus(settings.bus_url()), open_store(settings.store_url()), Lake(settings.folder)
    if old:
        await fill(settings.folder, bus, old, past)
    pubsub = open_pubsub(live_url)
    key = await keys.local_key(store, settings.folder)
    with listening("127.0.0.1", 0) as listener:
        gateway = Gateway(settings, bus, pubsub, store, lake, static=None)

        def ready(port: int) -> None:
            settle()  # as every service does
            print(f"ready {port} {key}", flush=True)

        serving = asyncio.create_task(gateway.run(listener, ready), name="bench gateway")
        await obey(Publisher(pubsub, coins))
        serving.cancel()
        await asyncio.wait([serving], timeout=10)


async def publish(live_url: str, coins: list[str]) -> None:
    """A publisher alone, for a gateway in another process."""
    pubsub = open_pubsub(live_url)
    print("ready", flush=True)
    await obey(Publisher(pubsub, coins))
    await pubsub.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["serve", "publish"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--live-url", default="")
    parser.add_argument("--markets", type=int, default=6)
    parser.add_argument("--past", type=int, default=0)
    parser.add_argument("--past-markets", type=int, default=0)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    coins = [f"M{number:03d}" for number in range(given.markets)]
    old = [f"P{number:03d}" for number in range(given.past_markets)]
    if given.role == "serve":
        uvloop.run(serve(given.folder, given.live_url, coins, old, given.past))
    else:
        uvloop.run(publish(given.live_url, coins))


if __name__ == "__main__":
    main()
