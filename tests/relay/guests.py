"""People with keys, and a relay that asks for them, on loopback like everything else here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import zmq
import zmq.asyncio

from artery.app.relaying import make_pair
from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from artery.wire import certificates
from artery.wire.certificates import Certificate
from artery.wire.relays import Relay
from artery.wire.sockets import show
from tests.relay.conftest import FREE, Peer, relay


@dataclass
class Guarded:
    """A relay with keys, and peers that show theirs."""

    settings: Settings
    bus: Bus
    store: Store
    where: Relay
    context: zmq.asyncio.Context
    peers: list[Peer] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.settings.relay.keys)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.key_secret"

    def make(self, name: str, user: str = "", roles: tuple[str, ...] = ("client",)) -> Path:
        return make_pair(self.settings, name, user, roles)

    def peer(self, kind: int, url: str, key: Path | Certificate | None) -> Peer:
        """A peer that shows this key; a stranger has none."""
        made = Peer(self.context, kind)
        if kind == zmq.XPUB:
            made.socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # it hears of a subscription again when the relay comes back
        carried = key if isinstance(key, Certificate) else certificates.carried(key or "")
        show(carried)(made.socket, "")
        made.socket.connect(url)
        self.peers.append(made)
        return made

    def client(self, name: str) -> Peer:
        return self.peer(zmq.DEALER, self.where.requests, self.file(name))

    def subscriber(self, name: str) -> Peer:
        return self.peer(zmq.SUB, self.where.clients, self.file(name))

    def processor(self, name: str = "processor") -> Peer:
        return self.peer(zmq.XPUB, self.where.processors, self.file(name))

    def ingestor(self, name: str = "ingestor") -> Peer:
        made = self.peer(zmq.SUB, self.where.work, self.file(name))
        made.socket.setsockopt(zmq.SUBSCRIBE, b"SIM:")
        return made


@asynccontextmanager
async def guarded(folder: Path, **changes: object) -> AsyncIterator[Guarded]:
    settings = Settings().with_(data={"dir": str(folder)}, relay=FREE | {"keys": str(folder / "keys")} | changes)
    settings.folder.mkdir()
    for name, user, role in (
        ("alice", "alice", "client"),
        ("alice-phone", "alice", "client"),
        ("bob", "bob", "client"),
        ("ingestor", "artery", "ingestor"),
        ("processor", "artery", "processor"),
    ):
        make_pair(settings, name, user, [role])
    bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
    context = zmq.asyncio.Context()
    try:
        async with relay(settings, bus, store) as where:
            yield Guarded(settings, bus, store, where, context)
    finally:
        context.destroy(linger=0)
        await bus.close()
        await store.close()
