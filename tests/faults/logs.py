"""Where the events of a scenario go: a log on one of the backends, and its server, which can be hurt."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from artery.bus.base import Bus
from artery.bus.open import open_bus
from tests.kafka import KafkaServer
from tests.servers import RedisServer


class Server(Protocol):
    """What every server of the tests can be told."""

    @property
    def url(self) -> str: ...

    def start(self) -> object: ...

    def kill(self) -> None: ...

    def frozen(self) -> AbstractContextManager[None]: ...

    def end(self) -> None: ...


BACKENDS = ("sqlite", "redis", "kafka")


class Servers:
    """One server a backend, started when it is first asked for; left running as it was found by each scenario."""

    def __init__(self) -> None:
        self._made: dict[str, Server] = {}

    def server(self, name: str) -> Server | None:
        if name == "sqlite":
            return None
        if name not in self._made:
            # Redis is synced at every write, so that a kill at any moment may lose nothing.
            made = KafkaServer() if name == "kafka" else RedisServer(None, "--appendfsync", "always")
            self._made[name] = made.start()
        return self._made[name]

    def url(self, name: str, folder: Path) -> str:
        server = self.server(name)
        return f"sqlite:///{folder}/bus.db" if server is None else server.url

    def end(self) -> None:
        for server in self._made.values():
            server.end()


class Log(msgspec.Struct):
    """A place for streams: any process may open it with `url` and `base`."""

    name: str
    url: str
    base: str
    server: Server | None

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
