"""A relay and ingestors as processes of their own around a simulated venue, and clients that ask it for history."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from google.protobuf.message import Message

from artery.live.lock import Holder
from artery.settings import RELAY_PORTS
from artery.wire import history, messages, requests
from artery.wire.artery_pb2 import (
    HistoryReadyNotification,
    OHLCBatch,
    StatusRequest,
    SubmitHistoricalRequest,
    SubmitResponse,
    SubscriptionConfirmed,
)
from artery.wire.sockets import Context, Kind
from tests.faults.logs import Log
from tests.faults.processes import Child, Stage
from tests.faults.venue import Scene, reaches, scene
from tests.servers import free_port

MINUTE_MS = 60_000
WAIT_S = 60.0
SOCKETS_MAX = 4_096
"""Two for each of a thousand clients; libzmq's own limit is 1,023."""


class Client:
    """One who subscribes to its own topic, waits for the confirmation and asks; it keeps what it was told."""

    def __init__(self, context: Context, urls: tuple[str, str], client_id: str) -> None:
        self.id = client_id
        self._urls = urls
        self._asks, self._hears = context.socket(Kind.DEALER), context.socket(Kind.SUB)
        self.confirmed_at: list[float] = []
        self.outcomes: list[HistoryReadyNotification] = []

    def connect(self) -> None:
        self._asks.connect([self._urls[0]])
        self._hears.connect([self._urls[1]])
        self._hears.subscribe(f"RESPONSE:{self.id}|")

    async def listen(self) -> None:
        """Hear until cancelled."""
        while True:
            _topic, *frames = await self._hears.receive()
            said = messages.read(frames)
            if isinstance(said, SubscriptionConfirmed):
                self.confirmed_at.append(time.monotonic())
            elif isinstance(said, HistoryReadyNotification):
                self.outcomes.append(said)

    async def confirmed(self, times: int = 1) -> None:
        async def are() -> bool:
            return len(self.confirmed_at) >= times

        await reaches(are)

    async def ask(self, message: Message) -> Any:
        self._asks.send([b"", *messages.write(message)])
        async with asyncio.timeout(WAIT_S):
            return messages.read((await self._asks.receive())[1:])

    async def submit(self, request_id: str, minutes: int = 60, period_s: int = 60, before: int = 0) -> SubmitResponse:
        """Ask for the candles of the last so many minutes, but for the newest `before`."""
        end_ms = int(time.time() * 1_000) // MINUTE_MS * MINUTE_MS - before * MINUTE_MS
        asked = SubmitHistoricalRequest(
            request_id=request_id, client_id=self.id, ticker="SIM:BTC", start_ms=end_ms - minutes * MINUTE_MS,
            end_ms=end_ms, period_s=period_s,
        )  # fmt: skip
        answer: SubmitResponse = await self.ask(asked)
        return answer

    async def accepted(self, request_id: str, minutes: int = 60, period_s: int = 60) -> None:
        """Submit until an ingestor is there."""

        async def is_so() -> bool:
            status = (await self.submit(request_id, minutes, period_s)).status
            return status in (SubmitResponse.ACCEPTED, SubmitResponse.DUPLICATE)

        await reaches(is_so)


class Relayed:
    """A scene with a relay in front of it."""

    def __init__(self, one: Scene, stage: Stage) -> None:
        self.scene, self.stage = one, stage
        self.ports = {name: free_port() for name in RELAY_PORTS}
        self.environ = one.environ | {f"ART_RELAY_{name.upper()}": str(port) for name, port in self.ports.items()}
        self.urls = tuple(f"tcp://127.0.0.1:{self.ports[name]}" for name in ("request_port", "client_port"))
        self._context = Context()
        self._context.driver.max_sockets = SOCKETS_MAX
        self._tasks: list[asyncio.Task[None]] = []

    def service(self, service: str, name: str = "", **more: str) -> Child:
        """`artery run SERVICE`."""
        return self.stage.run(["artery", "run", service], name or service, self.environ | more)

    def client(self, name: str) -> Client:
        made = Client(self._context, (self.urls[0], self.urls[1]), name)
        made.connect()
        self._tasks.append(asyncio.create_task(made.listen()))
        return made

    async def open(self) -> None:
        """Until the relay takes connections."""

        async def takes() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.ports["client_port"])
            except OSError:
                return False
            writer.close()
            return True

        await reaches(takes)

    async def pages(self, request_id: str) -> list[OHLCBatch]:
        found = [history.decode(entry.fields) for entry in await self.scene.entries("history")]
        return [page for page in found if page.request_id == request_id]

    async def finished(self, request_id: str, within_s: float = WAIT_S) -> list[OHLCBatch]:
        """The pages of a request, once its last one is there."""

        async def is_so() -> bool:
            return any(page.last for page in await self.pages(request_id))

        await reaches(is_so, within_s)
        return await self.pages(request_id)

    async def holder(self, request_id: str) -> int:
        """The process that holds a request's lease, once one does."""
        found: list[int] = []

        async def held() -> bool:
            value = await self.scene.store.get(requests.lease(request_id))
            found[:] = [msgspec.json.decode(value, type=Holder).pid] if value else []
            return bool(found) and found[0] > 0

        await reaches(held)
        return found[0]

    async def state(self, client: Client, request_id: str) -> int:
        return int((await client.ask(StatusRequest(request_id=request_id))).state)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._context.close()


@asynccontextmanager
async def relayed(stage: Stage, log: Log) -> AsyncIterator[Relayed]:
    async with scene(stage, log, trades_per_s=20.0) as one:
        made = Relayed(one, stage)
        try:
            yield made
        finally:
            await made.close()
