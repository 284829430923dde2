"""The relay as a service: it binds, says where it is, and answers until it is cancelled."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence

from artery.bus.base import Bus
from artery.errors import ArteryError, BadSetting, CannotStart, Unavailable
from artery.relay.door import Door
from artery.relay.fanout import Confirmations, Fanout
from artery.relay.routing import BYTES_MAX
from artery.relay.submit import Desk
from artery.relay.work import Control, WorkQueue
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger
from artery.wire import relays
from artery.wire.relays import Relay
from artery.wire.sockets import ROUTER_MANDATORY, XPUB_VERBOSER, Context, Kind, Socket, is_loopback, tcp

AGAIN_S, AGAIN_MOST_S = 1.0, 15.0
_log = logger("relay")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def run_relay(
    settings: Settings, bus: Bus, store: Store, ready: Callable[[Relay], None] = lambda _relay: None
) -> None:
    """Run until cancelled. A port that is taken, or a part that is away, is waited for and said; nobody else minds."""
    check(settings)
    wait_s = AGAIN_S
    while True:
        began = time.monotonic()
        try:
            await _serve(settings, bus, store, ready)
        except* (CannotStart, Unavailable) as group:
            _log.error("the relay is not there and tries again", reason=str(_first(group)), wait_s=round(wait_s))
        wait_s = AGAIN_S if time.monotonic() - began > AGAIN_MOST_S else min(AGAIN_MOST_S, wait_s * 2)
        await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))


def check(settings: Settings) -> None:
    """Refuse an address that others can reach: it would be open to everyone."""
    host = settings.relay.host
    if not is_loopback(host):
        raise BadSetting(
            f"ART_RELAY_HOST is {host!r:.60}, which other machines can reach, and ZeroMQ there would be open to all of"
            " them: use 127.0.0.1, and a tunnel between machines"
        )


async def _serve(settings: Settings, bus: Bus, store: Store, ready: Callable[[Relay], None]) -> None:
    """One life: everything bound, or nothing."""
    context = Context()
    fanout = Fanout(context)
    try:
        parts = _Parts(context, fanout, settings, bus, store)
        where = parts.bind()
        async with asyncio.TaskGroup() as group:
            for task in parts.tasks():
                group.create_task(task)
            group.create_task(_say(store, where))
            ready(where)
            _log.info("the relay listens", **where.ports())
    finally:
        fanout.discard()
        await context.close()
        fanout.join()


class _Parts:
    """The sockets and who works them."""

    def __init__(self, context: Context, fanout: Fanout, settings: Settings, bus: Bus, store: Store) -> None:
        self._settings = settings.relay
        self._fanout = fanout
        self._requests = context.socket(Kind.ROUTER, frame_max=BYTES_MAX)
        self._requests.option(ROUTER_MANDATORY, 1)
        self._work = context.socket(Kind.XPUB, frame_max=BYTES_MAX)
        self._work.option(XPUB_VERBOSER, 1)
        self._control = context.socket(Kind.PUB, frame_max=BYTES_MAX)
        self._confirmations = Confirmations(context)
        self.queue = WorkQueue(self._work)
        self.orders = Control(self._control, generation=wall_ms())
        desk = Desk(settings, bus, store, self.queue, self.orders, self._announce, wall_ms)
        self.door = Door(self._requests, desk)

    def _announce(self, topic: str, outcome: object) -> None:
        self._confirmations.publish(topic.encode(), outcome)

    def bind(self) -> Relay:
        """Take every port."""
        made = self._settings
        where = Relay(
            requests=self._bind(self._requests, made.request_port, "REQUEST"),
            work=self._bind(self._work, made.work_port, "WORK"),
            control=self._bind(self._control, made.control_port, "CONTROL"),
            processors=self._processors(),
            clients=self._fanout.bind_clients(tcp(made.host, made.client_port)),
        )
        self._fanout.start()
        return where

    def tasks(self) -> Sequence["asyncio._CoroutineLike[None]"]:
        return (
            self.door.run(),
            self.queue.listen(),
            self.orders.repeat(),
            self._confirmations.run(wall_ms),
            self._watch(),
        )

    def _bind(self, socket: Socket, port: int, name: str) -> str:
        return socket.bind(tcp(self._settings.host, port), f"ART_RELAY_{name}_PORT")

    def _processors(self) -> str:
        """Where processors connect to; nothing, if the settings say where they are."""
        if self._settings.processors:
            self._fanout.connect_processors(self._settings.processors)
            return ""
        return self._fanout.bind_processors(tcp(self._settings.host, self._settings.processor_port))

    async def _watch(self) -> None:
        await self._fanout.ended()
        raise Unavailable("the fan-out's thread has ended")


async def _say(store: Store, where: Relay) -> None:
    """Keep saying in the store where this relay is, and no longer once it stops."""
    key = relays.key(secrets.token_hex(8))
    try:
        while True:
            try:
                await store.put(key, relays.encode(where), relays.TTL_S)
            except ArteryError as error:
                _log.warning("the store cannot be told where the relay is", reason=str(error))
            await asyncio.sleep(relays.SAY_S * random.uniform(0.8, 1.0))
    finally:
        try:
            async with asyncio.timeout(1.0):
                await store.delete(key)
        except (ArteryError, TimeoutError):
            pass  # it lapses by itself


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
