"""One Spark for every test that needs it, on a lake of its own, and an event loop for bus and store."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.lake.prepare import prepare
from artery.lake.reads import Lake
from artery.pipeline.calls import Calls
from artery.pipeline.session import Spark
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from tests.spark import QUICK

T = TypeVar("T")


@dataclass
class House:
    """What the tests share: a session, the settings it was built with, and the lake it writes."""

    session: Any
    settings: Settings
    lake: Lake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves the sockets of finished collects to the garbage collector; that alone is no failure."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            ignored = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test has left is collected in that test, where it belongs."""
    yield
    if "spark" in request.fixturenames:
        gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Real Spark in local mode with the real catalog; tests keep apart by their markets' names."""
    settings = Settings().with_(data={"dir": str(tmp_path_factory.mktemp("spark"))})
    settings.folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK.items():
            patch.setenv(name, value)
        running = Spark(settings)
    try:
        prepare(settings.folder)
        lake = Lake(settings.folder)
        yield House(running.session(), settings, lake)
        lake.close()
    finally:
        running.stop()


@pytest.fixture(scope="session")
def calls() -> Iterator[Calls]:
    """A loop in a thread, as the pipeline's service has it, and the way into it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield Calls(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@dataclass
class Log:
    """A bus in a file, used from outside its loop."""

    url: str
    bus: Bus
    calls: Calls

    def do(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.calls(make, "a test")

    def append(self, stream: str, *entries: dict[str, str]) -> list[str]:
        return self.do(lambda: self.bus.append(stream, list(entries)))

    def fields(self, stream: str) -> list[dict[str, str]]:
        return [entry.fields for entry in self.do(lambda: self.bus.read(stream, limit=100_000))]


@pytest.fixture
def log(tmp_path: Path, calls: Calls) -> Iterator[Log]:
    url = f"sqlite:///{tmp_path}/bus.db"

    async def opened() -> Bus:
        return open_bus(url)

    made = Log(url, calls(opened, "opening the bus"), calls)
    yield made
    made.do(made.bus.close)


@pytest.fixture
def store(log: Log, tmp_path: Path) -> Iterator[Store]:
    async def opened() -> Store:
        return open_store(f"sqlite:///{tmp_path}/store.db")

    made = log.do(opened)
    yield made
    log.do(made.close)
