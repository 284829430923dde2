"""Clients of the gateway while its Redis is frozen, and when it comes back empty."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.faults.checker import Name, check_feed
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage, until
from tests.faults.trial import Trial
from tests.faults.venue import Scene, scene
from tests.servers import free_port

CHANNEL = "artery:stream:sim:BTC"

ONCE = True


class Client:
    """One socket, and everything that came over it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._frames: list[dict[str, Any]] = []
        self._task = asyncio.create_task(self._listen())
        self.closed = False

    async def _listen(self) -> None:
        ask = {"type": "subscribe", "id": "1", "channels": [{"channel": CHANNEL, "types": ["TRADE"]}]}
        await self._socket.send(msgspec.json.encode(ask).decode())
        try:
            async for frame in self._socket:
                self._frames.append(msgspec.json.decode(frame))
        except ConnectionClosed:
            pass
        self.closed = True

    @property
    def trades(self) -> list[dict[str, str]]:
        return [frame["data"] for frame in self._frames if frame["type"] == "event"]

    @property
    def gaps(self) -> list[dict[str, Any]]:
        return [frame for frame in self._frames if frame["type"] == "gap"]

    async def flows(self, more: int = 20) -> None:
        before = len(self.trades)
        await until(lambda: len(self.trades) >= before + more or self.closed, f"{more} more trades")

    async def end(self) -> None:
        await self._socket.close()
        await self._task


def key_in(folder: Path) -> str:
    file = folder / "sim" / "key"
    return file.read_text().strip() if file.exists() else ""


@asynccontextmanager
async def client_of(one: Scene, stage: Stage) -> AsyncIterator[tuple[Client, Child]]:
    """Ingest and gateway as one process, its log and pub/sub on Redis, its keys in a file; and a client of it."""
    port = free_port()
    mine = {
        "ART_STORE_URL": f"sqlite:///{one.folder}/store.db",
        "ART_GATEWAY_PORT": str(port),
        "ART_RELAY_ON": "off",
    }
    serve = stage.run(["artery", "run", "serve"], "serve", one.environ | mine)
    await until(lambda: bool(key_in(one.folder)), "the key")
    headers = {"Authorization": f"Bearer {key_in(one.folder)}"}
    for _ in range(600):
        try:
            socket = await connect(f"ws://127.0.0.1:{port}/v1/stream", additional_headers=headers, proxy=None)
            break
        except OSError:
            await asyncio.sleep(0.1)
    client = Client(socket)
    try:
        yield client, serve
    finally:
        await client.end()


async def judge(one: Scene, client: Client, trial: Trial) -> None:
    """Every trade of the venue since the first reached the client, or it was told."""
    # A log that came back empty knows no trade again that the venue repeats: clients do, by its key.
    named = [("BTC", int(trade["ts"]), trade["tid"]) for trade in client.trades]
    seen: list[Name] = list(dict.fromkeys(named))
    start_ms, end_ms = seen[0][1] + 1, seen[-1][1] - 1
    holes = [("", gap["from_ms"], gap["to_ms"]) for gap in client.gaps]
    trial.judge(check_feed(await one.truth("BTC", start_ms, end_ms + 1), seen, holes, start_ms, end_ms))


async def test_a_redis_that_freezes_keeps_clients_sockets_and_one_that_came_back_empty_is_said_to_them(
    trial: Trial, redis_log: Log, stage: Stage
) -> None:
    async with scene(stage, redis_log, ttl_s=6.0) as one, client_of(one, stage) as (client, serve):
        await client.flows()
        with redis_log.redis.frozen():
            await asyncio.sleep(trial.pick(1.5, 20.0))
        await client.flows()
        redis_log.redis.kill()
        redis_log.redis.forget()
        redis_log.redis.start()
        epoch = client.trades[-1]["epoch"]
        await until(lambda: client.trades[-1]["epoch"] > epoch or client.closed, "a new epoch")
        await client.flows()
        assert not client.closed, f"the client's socket was closed; {trial.again}"
        assert client.gaps, f"the client was not told; {trial.again}"
        await judge(one, client, trial)
        assert serve.alive
        assert "Traceback" not in stage.said()
