"""What relays say to ingestors: that there is work, and what to leave off. Being subscribed is what makes a relay
accept requests for this exchange."""

import asyncio
import random

from google.protobuf.message import Message

from artery.errors import ArteryError, BadInput
from artery.ingest import metrics
from artery.ingest.parts import Parts
from artery.ingest.requests import Requests
from artery.telemetry import logger
from artery.wire import certificates, messages, relays
from artery.wire.artery_pb2 import DataRequest, IngestorControl
from artery.wire.sockets import Context, Kind, Socket, show

LOOK_S, LOOK_FIRST_S = 5.0, 0.5

_log = logger("ingest")


class Summons:
    """Follows the relays that the store knows."""

    def __init__(self, parts: Parts, work: Requests) -> None:
        self._parts = parts
        self._requests = work
        self._config = ""
        self._look = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        context = Context(show(certificates.carried(self._parts.settings.relay.key)))
        try:
            work, control = context.socket(Kind.SUB), context.socket(Kind.SUB)
            work.subscribe(f"{self._parts.exchange}:")
            control.subscribe("")
            async with asyncio.TaskGroup() as group:
                group.create_task(self._find(work, control))
                group.create_task(self._hear_work(work))
                group.create_task(self._hear_orders(control))
        finally:
            await context.close()

    async def _find(self, work: Socket, control: Socket) -> None:
        """Be connected to every relay there is."""
        while True:
            found: list[relays.Relay] = []
            try:
                known = relays.decode(await self._parts.store.scan(relays.PREFIX, 100))
                found = relays.fitting(known, carries_key=bool(self._parts.settings.relay.key))
                work.connect(relay.work for relay in found)
                control.connect(relay.control for relay in found)
            except ArteryError as error:
                _log.warning("relays cannot be looked for", reason=str(error))
            self._look.clear()
            try:
                async with asyncio.timeout((LOOK_S if found else LOOK_FIRST_S) * random.uniform(0.8, 1.0)):
                    await self._look.wait()
            except TimeoutError:
                continue

    async def _hear_work(self, work: Socket) -> None:
        """The request itself comes from the log, and what is wanted from the store: a wake-up says only to look."""
        while True:
            _topic, *frames = await work.receive()
            metrics.WOKEN.inc()
            request = _read(frames)
            if isinstance(request, DataRequest) and request.type == DataRequest.REALTIME_TICKS:
                self._parts.stirred.set()

    async def _hear_orders(self, control: Socket) -> None:
        while True:
            _topic, *frames = await control.receive()
            order = _read(frames)
            if isinstance(order, IngestorControl):
                self._obey(order)

    def _obey(self, order: IngestorControl) -> None:
        if order.action == IngestorControl.CANCEL:
            self._requests.cancel(order.request_id)
        elif order.action == IngestorControl.CONFIG_UPDATE and order.config != self._config:
            self._config = order.config
            self._parts.stirred.set()
        elif order.action == IngestorControl.SHUTDOWN:
            self._look.set()  # that relay has gone: another may be there already


def _read(frames: list[bytes]) -> Message | None:
    """What a relay says; None where it cannot be read."""
    try:
        return messages.read(frames)
    except BadInput as error:
        _log.warning("a relay's word cannot be read", reason=str(error))
        return None
