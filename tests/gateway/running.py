"""A real gateway on a real socket, with a real log, store and lake."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.gateway import keys
from artery.gateway.limits import LIMITS, Limits
from artery.gateway.service import Gateway, listening
from artery.lake.reads import Lake
from artery.live.base import PubSub
from artery.live.open import open_pubsub
from artery.model import codec
from artery.model.events import Candle, FeedEvent, MarketEvent
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from tests.gateway.made import message

WAIT_S = 30.0


class Running:
    """A started gateway and what stands behind it."""

    def __init__(
        self, settings: Settings, bus: Bus, store: Store, limits: Limits, static: Path | None, pubsub: PubSub
    ) -> None:
        self.settings, self.bus, self.store, self.pubsub = settings, bus, store, pubsub
        self.lake = Lake(settings.folder)
        self.gateway = Gateway(settings, bus, self.pubsub, store, self.lake, static=static, limits=limits)
        self.port = 0
        self.key = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    def connect(self, **options: Any) -> connect:
        """A client; without options, one with the local key."""
        usual: dict[str, Any] = {
            "uri": self.ws,
            "additional_headers": self.bearer(),
            "proxy": None,
            "compression": None,
        }
        return connect(**(usual | options))

    def bearer(self, key: str = "") -> dict[str, str]:
        return {"Authorization": f"Bearer {key or self.key}"}

    def http(self, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        chosen = self.bearer() if headers is None else headers
        return httpx.AsyncClient(base_url=self.url, headers=chosen, trust_env=False, timeout=WAIT_S)

    async def publish(self, *events: MarketEvent) -> None:
        """As ingest does once the events are on the bus."""
        await self.pubsub.publish([message(event) for event in events])

    async def append(self, stream: str, *events: MarketEvent | FeedEvent) -> list[str]:
        return await self.bus.append(stream, [codec.encode(event) for event in events])

    async def candles(self, *candles: Candle) -> list[str]:
        return await self.append("candle", *candles)


@asynccontextmanager
async def started(
    folder: Path,
    limits: Limits = LIMITS,
    static: Path | None = None,
    pubsub: PubSub | None = None,
    **sections: Mapping[str, Any],
) -> AsyncIterator[Running]:
    """A gateway on a free port, stopped at the end; `sections` are settings that differ from the usual ones."""
    settings = Settings().with_(data={"dir": str(folder)}, ingest={"markets": ("BTC", "ETH")}, gateway={"port": 0})
    settings = settings.with_(**sections)
    settings.folder.mkdir(parents=True, exist_ok=True)
    bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
    running = Running(settings, bus, store, limits, static, pubsub or open_pubsub(settings.live.url))
    try:
        running.key = await keys.local_key(store, settings.folder)
        with listening(settings.gateway.host, settings.gateway.port) as listener:
            port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(running.gateway.run(listener, port.set_result))
            await asyncio.wait([port, task], timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            assert port.done(), task
            running.port = port.result()
            try:
                yield running
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    finally:
        running.lake.close()
        await running.pubsub.close()
        await store.close()
        await bus.close()


async def say(socket: ClientConnection, **fields: Any) -> None:
    await socket.send(json.dumps(fields))


async def hear(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
    """The next frame, or the next that is wanted."""
    async with asyncio.timeout(WAIT_S):
        while True:
            frame: dict[str, Any] = json.loads(await socket.recv())
            if wanted is None or wanted(frame):
                return frame


async def subscribe(socket: ClientConnection, *channels: Any) -> dict[str, Any]:
    await say(socket, type="subscribe", id="s", channels=list(channels))
    return await hear(socket, lambda frame: frame.get("id") == "s")


async def until(what: Callable[[], Any]) -> Any:
    """Wait for a condition."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = what()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come true in {WAIT_S} s")
