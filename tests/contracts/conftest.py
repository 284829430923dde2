"""Backends that must keep the contracts; a new one joins by adding its kit to a table here."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.live.base import LeaderLock, PubSub
from artery.live.lock import StoreLock
from artery.live.memory import MemoryPubSub
from artery.live.redis import RedisPubSub
from artery.store.base import Store
from artery.store.sqlite import SqliteStore
from tests.contracts.redis_kits import SERVER, RedisLockKit, RedisStoreKit
from tests.kafka import BROKER

WAIT_S = 30.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen; fail if it has not after a long time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.005)


class BusKit:
    """A place where buses live: any process may open it with `url` and `base`.

    `counts_vanished`: a pending entry that was trimmed counts tries and can change hands, as others do.
    """

    def __init__(self, url: str, *, counts_vanished: bool = True, new_base: Callable[[], str] | None = None) -> None:
        self.url = url
        self.counts_vanished = counts_vanished
        self._bases = itertools.count(1)
        self.new_base = new_base or (lambda: f"contract_{next(self._bases)}")
        """A base without a single stream."""
        self.base = self.new_base()
        self._open: list[Bus] = []

    def open(self, base: str = "") -> Bus:
        self._open.append(open_bus(self.url, base or self.base))
        return self._open[-1]

    async def close(self) -> None:
        for bus in self._open:
            await bus.close()


class StoreKit(Protocol):
    """A place where stores live, and its time: `advance` may jump or really wait."""

    def open(self) -> Store: ...

    async def advance(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class LockKit(Protocol):
    """A place where locks live, each `contender` as if in a process of its own, and its time."""

    def contender(self) -> LeaderLock: ...

    def monotonic(self) -> float: ...

    async def advance(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class SqliteStoreKit:
    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "store.db")
        self._ahead_s = 0.0
        self._open: list[Store] = []

    def open(self) -> Store:
        self._open.append(SqliteStore(self._path, clock=self.wall))
        return self._open[-1]

    def wall(self) -> float:
        return time.time() + self._ahead_s

    async def advance(self, seconds: float) -> None:
        self._ahead_s += seconds

    async def close(self) -> None:
        for store in self._open:
            await store.close()


class StoreLockKit:
    """Its time stands still but for `advance`, so that nothing depends on how busy the machine is."""

    def __init__(self, stores: StoreKit) -> None:
        self._stores = stores
        self._now = 1_000.0

    def contender(self) -> LeaderLock:
        return StoreLock(self._stores.open(), clock=lambda: 1_700_000_000 + self._now, monotonic=self.monotonic)

    def monotonic(self) -> float:
        return self._now

    async def advance(self, seconds: float) -> None:
        self._now += seconds

    async def close(self) -> None:
        await self._stores.close()


BUSES: dict[str, Callable[[Path], BusKit]] = {
    "sqlite": lambda folder: BusKit(f"sqlite:///{folder}/bus.db"),
    "redis": lambda _: BusKit(SERVER.new_url(), counts_vanished=False),
    "kafka": lambda _: BusKit(BROKER.running_url(), new_base=BROKER.new_base),
}
STORES: dict[str, Callable[[Path], StoreKit]] = {"sqlite": SqliteStoreKit, "redis": lambda _: RedisStoreKit()}
PUBSUBS: dict[str, Callable[[], PubSub]] = {
    "memory": lambda: MemoryPubSub(queue_max=100),
    "redis": lambda: RedisPubSub(SERVER.new_url(), queue_max=100),
}
LOCKS: dict[str, Callable[[Path], LockKit]] = {
    "sqlite store": lambda folder: StoreLockKit(SqliteStoreKit(folder)),
    "redis store": lambda _: StoreLockKit(RedisStoreKit()),
    "redis": lambda _: RedisLockKit(),
}


@pytest.fixture(scope="package", autouse=True)
def no_server_is_left_behind() -> Iterator[None]:
    yield
    SERVER.end()


@pytest.fixture(params=BUSES)
async def bus_kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BusKit]:
    kit = BUSES[request.param](tmp_path)
    yield kit
    await kit.close()


@pytest.fixture(params=BUSES)
def bus_kit_in_no_loop(request: pytest.FixtureRequest, tmp_path: Path) -> BusKit:
    """For tests that run a loop of their own, and close what they open in it."""
    return BUSES[request.param](tmp_path)


@pytest.fixture
def bus(bus_kit: BusKit) -> Bus:
    return bus_kit.open()


@pytest.fixture(params=STORES)
async def store_kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreKit]:
    kit = STORES[request.param](tmp_path)
    yield kit
    await kit.close()


@pytest.fixture
def store(store_kit: StoreKit) -> Store:
    return store_kit.open()


@pytest.fixture(params=PUBSUBS)
async def pubsub(request: pytest.FixtureRequest) -> AsyncIterator[PubSub]:
    """A pub/sub whose subscribers may fall 100 messages behind."""
    made = PUBSUBS[request.param]()
    yield made
    with suppress(Exception):
        await made.close()


@pytest.fixture(params=LOCKS)
async def lock_kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LockKit]:
    kit = LOCKS[request.param](tmp_path)
    yield kit
    await kit.close()


@pytest.fixture(params=LOCKS)
def lock_kit_in_no_loop(request: pytest.FixtureRequest, tmp_path: Path) -> LockKit:
    """For tests that run a loop of their own, and close the kit in it."""
    return LOCKS[request.param](tmp_path)
