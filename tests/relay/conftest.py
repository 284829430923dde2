"""A relay on free ports over a real bus and store, and peers that speak plain ZeroMQ."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from google.protobuf.message import Message

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.relay import work
from artery.relay.service import run_relay
from artery.settings import RELAY_PORTS, Settings
from artery.store.base import Store
from artery.store.open import open_store
from artery.wire import messages
from artery.wire.relays import Relay

WAIT_S = 30.0
FREE = dict.fromkeys(RELAY_PORTS, 0)


async def soon(awaitable: Awaitable[Any]) -> Any:
    """What must come, with a deadline that only a hang reaches."""
    return await asyncio.wait_for(awaitable, WAIT_S)


async def until(is_so: Callable[[], Awaitable[Any]], what: str) -> Any:
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while not (found := await is_so()):
        assert asyncio.get_running_loop().time() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.01)
    return found


class Peer:
    """Any ZeroMQ socket of someone else."""

    def __init__(self, context: zmq.asyncio.Context, kind: int, url: str = "", **options: int) -> None:
        self.socket = context.socket(kind)
        for name, value in options.items():
            self.socket.setsockopt(getattr(zmq, name), value)
        if url:
            self.socket.connect(url)

    async def send(self, *frames: bytes) -> None:
        await soon(self.socket.send_multipart(list(frames)))

    async def receive(self) -> list[bytes]:
        frames: list[bytes] = await soon(self.socket.recv_multipart())
        return frames

    async def ask(self, message: Message, before: Sequence[bytes] = ()) -> Any:
        """Send a request and read its answer, which must begin as the request did."""
        await self.send(*before, *messages.write(message))
        frames = await self.receive()
        assert frames[: len(before)] == list(before)
        return messages.read(frames[len(before) :])

    async def hear(self) -> tuple[str, Any]:
        """The topic and message that come next."""
        topic, *rest = await self.receive()
        return topic.decode(), messages.read(rest)

    async def subscribe(self, topic: str) -> None:
        """Subscribe, and wait until the relay has confirmed it."""
        self.socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        while True:
            heard, message = await self.hear()
            if heard == topic and type(message).__name__ == "SubscriptionConfirmed":
                return


@dataclass
class House:
    """A relay, what it stands on, and a way to reach it."""

    settings: Settings
    bus: Bus
    store: Store
    where: Relay
    context: zmq.asyncio.Context
    peers: list[Peer] = field(default_factory=list)

    def peer(self, kind: int, url: str, **options: int) -> Peer:
        """Kept until the end, as a socket that nobody holds is closed."""
        self.peers.append(Peer(self.context, kind, url, **options))
        return self.peers[-1]

    def client(self) -> Peer:
        return self.peer(zmq.DEALER, self.where.requests)

    def subscriber(self) -> Peer:
        return self.peer(zmq.SUB, self.where.clients)

    def processor(self) -> Peer:
        return self.peer(zmq.XPUB, self.where.processors)

    async def ingestor(self, prefix: str = "SIM:") -> Peer:
        """Someone who listens for work."""
        made = self.peer(zmq.SUB, self.where.work)
        made.socket.setsockopt(zmq.SUBSCRIBE, prefix.encode())
        return made


@asynccontextmanager
async def relay(settings: Settings, bus: Bus, store: Store) -> AsyncIterator[Relay]:
    """One life of a relay."""
    ready: asyncio.Future[Relay] = asyncio.get_running_loop().create_future()
    said: list[Relay] = []

    def listens(where: Relay) -> None:
        said.append(where)
        if not ready.done():
            ready.set_result(where)
        assert where == said[0], "it comes back where it was"

    task = asyncio.create_task(run_relay(settings, bus, store, listens))
    try:
        done, _ = await soon(asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED))
        if task in done:
            task.result()
        yield ready.result()
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(work, "BEAT_S", 0.2)
    settings = Settings().with_(data={"dir": str(tmp_path)}, relay=FREE)
    settings.folder.mkdir()
    bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
    context = zmq.asyncio.Context()
    try:
        async with relay(settings, bus, store) as where:
            yield House(settings, bus, store, where, context)
    finally:
        context.destroy(linger=0)
        await bus.close()
        await store.close()
