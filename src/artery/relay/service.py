"""The relay as a service: it binds, says where it is, and answers until it is cancelled."""

import asyncio
import random
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from artery.bus.base import Bus
from artery.errors import ArteryError, BadSetting, CannotStart, Unavailable
from artery.relay.allowed import Allowed, Revoked, ShutOut, pair_of
from artery.relay.base import Fan
from artery.relay.demand import Demand
from artery.relay.discovery import Discovery, nameserver_of, place_of
from artery.relay.door import Door
from artery.relay.fanout import Fanout
from artery.relay.guarded import Guarded
from artery.relay.owners import Owners
from artery.relay.routing import ANSWERED_MAX
from artery.relay.submit import Desk
from artery.relay.work import Control, WorkQueue
from artery.settings import Settings
from artery.store.base import Store
from artery.telemetry import logger
from artery.wire import relays
from artery.wire.relays import Relay
from artery.wire.sockets import (
    ROUTER_MANDATORY,
    SUBSCRIPTION_MAX,
    XPUB_VERBOSER,
    Context,
    Kind,
    Socket,
    is_everywhere,
    is_loopback,
    let_in,
    no_keys,
    tcp,
)

AGAIN_S, AGAIN_MOST_S = 1.0, 15.0
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}", re.ASCII)
_log = logger("relay")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def run_relay(
    settings: Settings, bus: Bus, store: Store, ready: Callable[[Relay], None] = lambda _relay: None
) -> None:
    """Run until cancelled. A port that is taken, or a part that is away, is waited for and said; nobody else minds."""
    check(settings)
    wait_s, outside = AGAIN_S, ShutOut()
    while True:
        began, life, at_once = time.monotonic(), _Life(settings, bus, store, outside), False
        try:
            await life.run(ready)
        except* Revoked:
            settings, at_once = life.same_ports(), True
        except* (CannotStart, Unavailable) as group:
            _log.error("the relay is not there and tries again", reason=str(_first(group)), wait_s=round(wait_s))
        wait_s = AGAIN_S if time.monotonic() - began > AGAIN_MOST_S else min(AGAIN_MOST_S, wait_s * 2)
        await asyncio.sleep(0.0 if at_once else wait_s * random.uniform(0.5, 1.0))


def check(settings: Settings) -> None:
    """Refuse an address that others can reach without keys: it would be open to everyone. And keys that are none."""
    host, keys = settings.relay.host, settings.relay.keys
    for text in settings.relay.processors:
        place_of(text)
    if settings.relay.nameserver:
        nameserver_of(settings.relay.nameserver)
    if keys:
        pair_of(Path(keys))
    elif not is_loopback(host):
        raise BadSetting(
            f"ART_RELAY_HOST is {host!r:.60}, which other machines can reach, and ZeroMQ there would be open to all of"
            " them: set ART_RELAY_KEYS to a folder that `artery keys curve NAME` has made, or use 127.0.0.1"
        )
    _check_reached(host, settings.relay.advertise)


def _check_reached(host: str, advertise: str) -> None:
    """Others connect to where the relay says that it is, so it has to say one place."""
    if is_everywhere(host) and not advertise:
        raise BadSetting(
            f"ART_RELAY_HOST is {host}, to which nobody can connect: set ART_RELAY_ADVERTISE to the name or address by"
            " which other machines reach this one"
        )
    if advertise and (is_everywhere(advertise) or not _HOST.fullmatch(advertise)):
        raise BadSetting(f"ART_RELAY_ADVERTISE is {advertise!r:.80}, which is not a name or address without a port")


class _Life:
    """One life: everything bound, or nothing."""

    def __init__(self, settings: Settings, bus: Bus, store: Store, outside: ShutOut) -> None:
        self._settings, self._bus, self._store, self._outside = settings, bus, store, outside
        self._where: Relay | None = None

    def same_ports(self) -> Settings:
        """The settings with the ports that were taken, so that a next life is found where this one was."""
        ports = self._where.ports() if self._where else {}
        names = {"requests": "request", "processors": "processor", "clients": "client"}
        taken = {f"{names.get(name, name)}_port": int(port) for name, port in ports.items()}
        return self._settings.with_(relay=taken)

    async def run(self, ready: Callable[[Relay], None]) -> None:
        folder = self._settings.relay.keys
        context, fan = Context(let_in(pair_of(Path(folder))) if folder else no_keys), None
        try:
            allowed = Allowed(Path(folder), context, self._outside) if folder else None
            fan = _fan(context, allowed, self._store)
            parts = _Parts(context, fan, allowed, self._settings, self._bus, self._store)
            where = self._where = parts.bind()
            async with asyncio.TaskGroup() as group:
                for task in parts.tasks():
                    group.create_task(task)
                group.create_task(_say(self._store, parts.where))
                ready(where)
                _log.info("the relay listens", **where.ports())
        finally:
            if fan is not None:
                fan.discard()
            await context.close()
            if fan is not None:
                fan.join()


def _fan(context: Context, allowed: Allowed | None, store: Store) -> Fan:
    """In C, unless keys have to be looked at."""
    return Guarded(context, allowed, Owners(store), wall_ms) if allowed else Fanout(context, wall_ms)


class _Parts:
    """The sockets and who works them."""

    def __init__(
        self, context: Context, fan: Fan, allowed: Allowed | None, settings: Settings, bus: Bus, store: Store
    ) -> None:
        self._settings = settings.relay
        self._fan = fan
        self._allowed = allowed
        self._requests = context.socket(Kind.ROUTER, frame_max=ANSWERED_MAX, door="requests")
        self._requests.option(ROUTER_MANDATORY, 1)
        self._work = context.socket(Kind.XPUB, frame_max=SUBSCRIPTION_MAX, door="work")
        self._work.option(XPUB_VERBOSER, 1)
        self._control = context.socket(Kind.PUB, frame_max=SUBSCRIPTION_MAX, door="control")
        self._discovery = Discovery(self._settings.processors, self._settings.nameserver, fan)
        self.queue = WorkQueue(self._work)
        self.orders = Control(self._control, generation=wall_ms())
        owners = Owners(store) if allowed else None
        desk = Desk(settings, bus, store, self.queue, self.orders, fan.publish, wall_ms, owners)
        self.door = Door(self._requests, desk, allowed.user if allowed else _nobody)
        self._desk = desk
        self._demand = Demand(settings, store, fan.listeners)
        self._bound: Relay | None = None

    def where(self) -> Relay:
        """Where this relay is, and whom it is connected to."""
        assert self._bound is not None
        return msgspec.structs.replace(self._bound, connected=self._discovery.connected())

    def bind(self) -> Relay:
        """Take every port."""
        made = self._settings
        self._bound = Relay(
            requests=self._bind(self._requests, made.request_port, "REQUEST"),
            work=self._bind(self._work, made.work_port, "WORK"),
            control=self._bind(self._control, made.control_port, "CONTROL"),
            processors="" if made.processors else self._fan.bind_processors(tcp(made.host, made.processor_port)),
            clients=self._fan.bind_clients(tcp(made.host, made.client_port)),
            keys=self._allowed is not None,
        )
        if made.advertise:
            self._bound = relays.reached_by(self._bound, made.advertise)
        return self._bound

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        guards = [self._allowed.run()] if self._allowed else []
        looks = [self._discovery.run()] if self._settings.processors else []
        wants = [self._demand.run(), self._desk.keep_saying()]
        return (*guards, self._fan.run(), *looks, *wants, self.door.run(), self.queue.listen(), self.orders.repeat())

    def _bind(self, socket: Socket, port: int, name: str) -> str:
        return socket.bind(tcp(self._settings.host, port), f"ART_RELAY_{name}_PORT")


def _nobody(_key: str) -> str:
    return ""


async def _say(store: Store, where: Callable[[], Relay]) -> None:
    """Keep saying in the store where this relay is, and no longer once it stops."""
    key = relays.key(secrets.token_hex(8))
    try:
        while True:
            try:
                await store.put(key, relays.encode(where()), relays.TTL_S)
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
