"""What relays say to ingestors: that there is work, and what to leave off. Being subscribed is what makes a relay
accept requests for this exchange."""

import asyncio
import random

from artery.errors import ArteryError, BadInput
from artery.ingest import metrics
from artery.ingest.parts import Parts
from artery.ingest.requests import Requests
from artery.telemetry import logger
from artery.wire import certificates, messages, relays
from artery.wire.artery_pb2 import IngestorControl
from artery.wire.sockets import Context, Kind, Socket, show

LOOK_S, LOOK_FIRST_S = 5.0, 0.5

_log = logger("ingest")


class Summons:
    """Follows the relays that the store knows."""

    def __init__(self, parts: Parts, work: Requests) -> None:
        self._parts = parts
        self._requests = work

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
            await asyncio.sleep((LOOK_S if found else LOOK_FIRST_S) * random.uniform(0.8, 1.0))

    async def _hear_work(self, work: Socket) -> None:
        """The request itself comes from the log, which tells of it by itself: a wake-up is only counted."""
        while True:
            await work.receive()
            metrics.WOKEN.inc()

    async def _hear_orders(self, control: Socket) -> None:
        while True:
            _topic, *frames = await control.receive()
            try:
                order = messages.read(frames)
            except BadInput as error:
                _log.warning("an order cannot be read", reason=str(error))
                continue
            if isinstance(order, IngestorControl) and order.action == IngestorControl.CANCEL:
                self._requests.cancel(order.request_id)
