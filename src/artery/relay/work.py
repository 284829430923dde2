"""The ingestors' two channels: who listens for work, waking them up, and telling them what to do."""

import asyncio
import random
from contextlib import suppress

from google.protobuf.message import Message

from artery.errors import ArteryError
from artery.relay import metrics
from artery.telemetry import logger
from artery.wire import messages
from artery.wire.artery_pb2 import DataRequest, IngestorControl
from artery.wire.listeners import Listeners
from artery.wire.sockets import Socket

LATE_S = 0.6
"""How long a request waits for an ingestor to come: after a restart of the relay they need a moment."""
BEAT_S = 5.0

_log = logger("relay")


class WorkQueue:
    """Port 5555: a wake-up. The request itself is on the bus before anyone is woken."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._listeners = Listeners()
        self._came = asyncio.Event()

    async def listen(self) -> None:
        """Keep account of who subscribes, until cancelled."""
        while True:
            frames = await self._socket.receive()
            if self._listeners.take(frames) is None:
                metrics.REFUSED.labels("work", "no_subscription").inc()
                continue
            metrics.INGESTORS.set(len(self._listeners))
            self._came.set()
            self._came = asyncio.Event()

    async def has_ingestor(self, exchange: str) -> bool:
        """Whether someone listens for work of this exchange, or comes to within a moment."""
        deadline = asyncio.get_running_loop().time() + LATE_S
        while not self._listeners.wants(f"{exchange}:".encode()):
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            try:
                async with asyncio.timeout(left_s):
                    await self._came.wait()
            except TimeoutError:
                continue
        return True

    def wake(self, exchange: str, request: DataRequest) -> None:
        """Tell the ingestors of an exchange that there is work."""
        self._socket.send(messages.publish(f"{exchange}:", request))


class Control:
    """Port 5556: what ingestors are to do, with a rising generation, said again so that late ones hear it too."""

    def __init__(self, socket: Socket, generation: int) -> None:
        self._socket = socket
        self._generation = generation
        self._standing: list[Message] = []
        self._config = ""

    async def repeat(self) -> None:
        """Say the standing orders, the desired state and a sign of life again and again, until cancelled."""
        try:
            while True:
                for order in [*self._standing, *self._configured(), self._order(IngestorControl.HEARTBEAT)]:
                    self._socket.send(messages.publish("", order))
                self._standing = self._standing[-100:]
                await asyncio.sleep(BEAT_S * random.uniform(0.9, 1.1))
        finally:
            with suppress(ArteryError):
                self._socket.send(messages.publish("", self._order(IngestorControl.SHUTDOWN)))

    def configure(self, config: str) -> None:
        """From now on this is the desired state; a new one has a higher generation, and is said at once."""
        if config != self._config:
            self._config = config
            self._generation += 1
            for order in self._configured():
                self._socket.send(messages.publish("", order))

    def _configured(self) -> list[Message]:
        if not self._config:
            return []
        order = self._order(IngestorControl.CONFIG_UPDATE)
        order.config = self._config
        return [order]

    def cancel(self, request_id: str) -> None:
        """Have whoever fetches this request leave off."""
        self._generation += 1
        order = self._order(IngestorControl.CANCEL, request_id)
        self._standing.append(order)
        self._socket.send(messages.publish("", order))
        _log.info("a request was cancelled", request=request_id)

    def _order(self, action: "IngestorControl.Action", request_id: str = "") -> IngestorControl:
        return IngestorControl(action=action, request_id=request_id, generation=self._generation)
