"""A key is revoked while its clients are live at two gateways and others are being verified: cut, with nothing left."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.faults.checker import Seen, Sent, check
from tests.faults.logs import Log
from tests.faults.processes import Stage, until
from tests.faults.test_clients import CHANNEL, key_in
from tests.faults.trial import Trial
from tests.faults.venue import reaches
from tests.servers import free_port

WITHIN_S = 5.0
ENDED = {4500, 4501}
"""A key that has ended is refused, or cut off."""


class Gateway:
    """A gateway that is a process of its own, as a client and as an admin sees it."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, trust_env=False
        )

    def connect(self, key: str = "") -> connect:
        return connect(
            f"ws://127.0.0.1:{self._port}/v1/stream",
            additional_headers={"Authorization": f"Bearer {key or self._key}"},
            proxy=None,
            compression=None,
        )

    async def sessions(self) -> int:
        """How many clients it has, verified or not."""
        text = (await self.http.get("/metrics")).raise_for_status().text
        return sum(map(int, map(float, re.findall(r"^artery_gateway_sessions\{[^}]*\} ([0-9.]+)", text, re.MULTILINE))))


class Client:
    """A client that subscribes at once and notes when and how it was closed."""

    def __init__(self, name: str) -> None:
        self.name, self.code = name, 0
        self.closed_s = 0.0
        self.live = asyncio.Event()

    async def run(self, gateway: Gateway, key: str) -> None:
        async with gateway.connect(key) as socket:
            try:
                await socket.send(msgspec.json.encode({"type": "subscribe", "id": "1", "channels": [CHANNEL]}).decode())
                async for frame in socket:
                    if msgspec.json.decode(frame)["type"] == "subscribed":
                        self.live.set()
            except ConnectionClosed:
                pass
            self.closed_s, self.code = time.monotonic(), socket.close_code or 0


@asynccontextmanager
async def gateways(stage: Stage, log: Log) -> AsyncIterator[list[Gateway]]:
    """Two of them, on one store."""
    shared = log.shared_url()
    environ = {
        "ART_DATA_DIR": str(stage.folder),
        "ART_BUS_URL": log.url,
        "ART_BUS_BASE": log.base,
        "ART_STORE_URL": shared or f"sqlite:///{stage.folder}/store.db",
        "ART_LIVE_URL": shared,
    }
    async with AsyncExitStack() as stack:
        made = []
        for number in (1, 2):
            port = free_port()
            stage.run(["artery", "run", "gateway"], f"gateway{number}", environ | {"ART_GATEWAY_PORT": str(port)})
            await until(lambda: bool(key_in(Path(stage.folder))), "the key")
            made.append(Gateway(port, key_in(Path(stage.folder))))
            await stack.enter_async_context(made[-1].http)
            await answers(made[-1])
        yield made


async def answers(gateway: Gateway) -> None:
    """Until it takes connections."""
    async with asyncio.timeout(60.0):
        while True:
            try:
                await gateway.http.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


async def left(gateway: Gateway, count: int) -> bool:
    return await gateway.sessions() == count


async def test_a_revoked_key_is_cut_at_every_gateway_in_time_also_while_it_is_verified(
    trial: Trial, some_log: Log, stage: Stage
) -> None:
    count = trial.pick(20, 100)
    async with gateways(stage, some_log) as nodes, asyncio.TaskGroup() as group:
        usual = [await node.sessions() for node in nodes]
        made = (await nodes[0].http.post("/v1/keys", json={"user": "ann", "scopes": ["stream"]})).json()
        clients = [Client(f"{kind}-{n}") for kind in ("live", "coming") for n in range(count)]
        for n, client in enumerate(clients[:count]):
            group.create_task(client.run(nodes[n % 2], made["key"]))
        for client in clients[:count]:
            await client.live.wait()
        coming = [group.create_task(client.run(trial.dice.choice(nodes), made["key"])) for client in clients[count:]]
        await until(lambda: any(client.live.is_set() for client in clients[count:]), "some of those who come are in")
        began_s = time.monotonic()
        (await nodes[0].http.delete(f"/v1/keys/{made['id']}")).raise_for_status()
        await until(lambda: all(client.code for client in clients), "all are cut", 30.0)
        await asyncio.gather(*coming)
        last_s = max(client.closed_s for client in clients) - began_s
        trial.say(f"the last of {len(clients)} was cut {last_s:.1f} s after the word")
        assert last_s <= WITHIN_S, trial.again
        assert {client.code for client in clients} <= ENDED, trial.again
        for node, before in zip(nodes, usual, strict=True):
            await reaches(lambda node=node, before=before: left(node, before), WITHIN_S)  # type: ignore[misc]
        names = [client.name for client in clients]
        cut = [Seen(client.name, client.name) for client in clients if client.code in ENDED]
        trial.judge(check([Sent(names, set(names))], cut, ordered=False))
        assert "Traceback" not in stage.said()
