"""Where the events of a scenario go: a log on one of the backends, and its server, which can be hurt."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from artery.bus.base import Bus
from artery.bus.open import open_bus
from tests.kafka import BROKER
from tests.servers import RedisServer


class Server(Protocol):
    """What every server of the tests can be told."""

    @property
    def url(self) -> str: ...

    def start(self) -> object: ...

    def kill(self) -> None: ...

    def forget(self) -> None: ...

    def frozen(self) -> AbstractContextManager[None]: ...

    def end(self) -> None: ...


BACKENDS = ("sqlite", "redis", "kafka")


class Servers:
    """One server a backend, started when it is first asked for; every scenario leaves it running. The broker is that of
    all tests."""

    def __init__(self) -> None:
        self._made: dict[str, Server] = {}
        self._databases = itertools.count(1)

    def server(self, name: str) -> Server | None:
        if name == "sqlite":
            return None
        if name == "kafka":
            BROKER.running_url()
            return BROKER
        if name not in self._made:
            # Synced at every write, so that a kill at any moment may lose nothing; synced once a second, Redis writes
            # what it acknowledges while a sync is under way only after that.
            self._made[name] = RedisServer(None, "--appendfsync", "always").start()
        return self._made[name]

    def log(self, name: str, base: str, folder: Path) -> "Log":
        server = self.server(name)
        url = f"sqlite:///{folder}/bus.db" if server is None else server.url
        shared: dict[str, Callable[[], str]] = {"sqlite": str, "redis": lambda: url, "kafka": self._new_database}
        return Log(name, url, base, server, shared[name])

    def _new_database(self) -> str:
        redis = self.server("redis")
        assert redis is not None
        return f"{redis.url.removesuffix('0')}{next(self._databases)}"

    def end(self) -> None:
        for server in self._made.values():
            server.end()


class Log(msgspec.Struct):
    """A place for streams: any process may open it with `url` and `base`."""

    name: str
    url: str
    base: str
    server: Server | None
    shared_url: Callable[[], str] = str
    """Where processes with this log have pub/sub, lock and store; nothing: in a file, which needs no server."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Bus]:
        """The bus, in this process."""
        bus = open_bus(self.url, self.base)
        try:
            yield bus
        finally:
            await bus.close()

    @property
    def redis(self) -> RedisServer:
        assert isinstance(self.server, RedisServer)
        return self.server
