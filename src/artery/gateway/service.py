"""The gateway as a service: one port for HTTP, the page and `/v1/stream`."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import uvicorn

from artery.bus.base import Bus
from artery.errors import ArteryError, Unavailable
from artery.gateway import http, keys
from artery.gateway.access import Access
from artery.gateway.catalog import Catalog
from artery.gateway.door import Door
from artery.gateway.endings import Endings
from artery.gateway.heads import BoundedHttp
from artery.gateway.heal import Healer
from artery.gateway.history import History, LakeReads
from artery.gateway.hub import Hub
from artery.gateway.intake import intake
from artery.gateway.limits import LIMITS, Limits
from artery.gateway.listening import listening
from artery.gateway.listings import Listings
from artery.gateway.marks import Marks
from artery.gateway.parts import Parts
from artery.gateway.past import Past
from artery.gateway.protocol import StreamProtocol
from artery.gateway.rates import Rates
from artery.gateway.recent import Recent
from artery.gateway.replay import Replay
from artery.gateway.session import Watch
from artery.gateway.sessions import Connection, Sessions
from artery.gateway.tails import Tails
from artery.live.base import PubSub, Subscription
from artery.settings import Settings
from artery.store.base import Store
from artery.store.demand import Share
from artery.telemetry import logger

_CATALOG_S = 2.0
_STOP_S = 3
_BURST_S = 4.0
CROWD_S = 20.0
"""A key's clients may all come back at once, after a restart or a cut."""

_log = logger("gateway")


async def run_gateway(
    settings: Settings,
    bus: Bus,
    pubsub: PubSub,
    store: Store,
    lake: LakeReads,
    *,
    static: Path | None,
    ready: Callable[[int], None],
    limits: Limits = LIMITS,
) -> None:
    """Serve until cancelled; then clients are told to come back, and everything ends within seconds.

    `ready` is called with the port once connections are accepted.
    """
    with listening(settings.gateway.host, settings.gateway.port) as listener:
        await keys.local_key(store, settings.folder)
        gateway = Gateway(settings, bus, pubsub, store, lake, static=static, limits=limits)
        await gateway.run(listener, ready)


class Gateway:
    """All parts of one gateway, wired."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        pubsub: PubSub,
        store: Store,
        lake: LakeReads,
        *,
        static: Path | None,
        limits: Limits = LIMITS,
    ) -> None:
        provider = settings.ingest.provider
        self._pubsub = pubsub
        self._bus = bus
        self._limits = limits
        self.hub = Hub()
        self._catalog = Catalog(settings, store, self.hub)
        recent = Recent()
        self.history = History(recent, lake, bus)
        self._past = Past(bus, lake)
        self._healer = Healer(self.hub, self._past)
        holder, leave_s = f"gateway-{secrets.token_hex(8)}", settings.ingest.demand_leave_s
        self._share = Share(store, holder, self._catalog.demand.wanted, leave_s=leave_s)
        self._listings = Listings(bus, lake, self._catalog)
        self._tails = Tails(bus, lake, self.hub, self._catalog, recent, Marks(self._past.gaps))
        access = Access(store, strangers=rates_of(settings.gateway.strangers_per_s))
        door = Door(settings.gateway.host, settings.gateway.hosts, settings.gateway.origins)
        cookie_name = f"artery_session_{provider}"  # cookies know no ports: each venue's gateway has its own
        self.sessions = Sessions(
            hub=self.hub,
            channels=self._catalog,
            access=access,
            door=door,
            cookie_name=cookie_name,
            limits=limits,
            connects=rates_of(settings.gateway.connects_per_s, CROWD_S),
            replay=self._replay,
        )
        self._endings = Endings(access, self.sessions, every_s=limits.recheck_all_s)
        parts = Parts(
            bus=bus,
            store=store,
            access=access,
            catalog=self._catalog,
            history=self.history,
            tails=self._tails,
            provider=provider,
            workers=settings.stream.workers,
            cookie_name=cookie_name,
            per_key=rates_of(settings.gateway.requests_per_s),
        )
        self._app = http.make_app(parts, door, static)

    async def run(self, listener: socket.socket, ready: Callable[[int], None]) -> None:
        """Serve on a bound socket until cancelled."""
        pa.set_cpu_count(1)  # the past is read beside what is live, which needs a processor of its own
        async with self._pubsub.subscribe() as subscription:
            await self._refresh(subscription)
            positions = await self._tails.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._live(subscription))
                group.create_task(self._healer.audit())
                group.create_task(self._tails.run(positions))
                group.create_task(self._listings.run())
                group.create_task(self._share.run())
                group.create_task(self._sweep())
                group.create_task(self._recheck())
                group.create_task(self._follow_catalog(subscription))
                group.create_task(self._serve(listener, ready))

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            cast(Any, self._app),
            http=BoundedHttp,
            ws=cast(Any, self._protocol),
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_STOP_S,
        )

    def _protocol(self, config: uvicorn.Config, server_state: Any, app_state: Any) -> asyncio.Protocol:
        """One connection's protocol, as uvicorn asks for it."""
        return StreamProtocol(self.sessions, server_state.connections)

    async def _serve(self, listener: socket.socket, ready: Callable[[int], None]) -> None:
        port = listener.getsockname()[1]
        server = _Server(self._config(), lambda: ready(port))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        finally:
            await self._stop(server, serving)

    async def _stop(self, server: "_Server", serving: "asyncio.Task[None]") -> None:
        """Accept nobody new, send everyone away in small groups, then end."""
        try:
            for accepting in server.servers:
                accepting.close()
            await self.sessions.send_away(self._limits.restart_spread_s)
            server.should_exit = True
            await asyncio.wait([serving], timeout=2 * _STOP_S)
        finally:
            serving.cancel()

    async def _live(self, subscription: Subscription) -> None:
        try:
            await intake(subscription, self._healer.accept, self._limits)
        finally:
            self._healer.close()
        raise Unavailable("pub/sub has ended under the gateway: start it again")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.sessions.tick()

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(self._limits.recheck_s)
            await self._endings.look()

    async def _follow_catalog(self, subscription: Subscription) -> None:
        while True:
            await asyncio.sleep(_CATALOG_S)
            try:
                await self._refresh(subscription)
            except ArteryError as error:
                _log.warning("markets could not be read again", error=str(error))

    async def _refresh(self, subscription: Subscription) -> None:
        await self._catalog.refresh()
        await subscription.add(list(self._catalog.channels()))

    def _replay(self, connection: Connection, watch: Watch) -> Replay:
        return Replay(
            connection,
            watch,
            hub=self.hub,
            past=self._past,
            marks=self._tails.marks,
            limits=self._limits,
        )


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: whoever runs the process has its own."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self.servers = []
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def rates_of(per_s: float, burst_s: float = _BURST_S) -> Rates:
    """So many a second of one name, and bursts of what so many seconds would allow."""
    return Rates(per_s, burst_s * per_s)
