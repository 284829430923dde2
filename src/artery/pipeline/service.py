"""The pipeline as a process: it leads, starts Spark and its queries, watches them, and says how it is."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from artery.bus.open import open_bus
from artery.errors import ArteryError, Unavailable
from artery.live.base import Term
from artery.live.leader import lead
from artery.live.open import open_lock
from artery.pipeline.session import Spark
from artery.settings import Settings
from artery.store.base import Store
from artery.store.open import open_store
from artery.telemetry import logger

if TYPE_CHECKING:
    from artery.pipeline.running import Running

LOCK = "artery:lock:pipeline"
STATUS = "artery:pipeline"
LOCK_TTL_S = 30.0
STATUS_S = 2.0
STATUS_TTL_S = 60.0
_log = logger("pipeline")


def run_pipeline(settings: Settings, alive: Callable[[], None] = lambda: None) -> None:
    """Run until SIGTERM or SIGINT; any other end is an error. `alive` is called every second while all is well."""
    if settings.pipeline.publish_url:
        from artery.wire.sockets import check_public  # late, because of its driver

        check_public(settings.pipeline.publish_url, carries_key=bool(settings.relay.key))
    settings.folder.mkdir(parents=True, exist_ok=True)
    spark = Spark(settings)  # before anything else: it takes the longest
    try:
        asyncio.run(_until_stopped(settings, spark, alive))
    finally:
        spark.stop()


async def _until_stopped(settings: Settings, spark: Spark, alive: Callable[[], None]) -> None:
    service = _Service(settings, spark, alive)
    task = asyncio.ensure_future(service.run())
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


class _Service:
    def __init__(self, settings: Settings, spark: Spark, alive: Callable[[], None]) -> None:
        self._settings = settings
        self._spark = spark
        self._alive = alive
        self._store: Store = open_store(settings.store_url())
        self._bus = open_bus(settings.bus_url(), settings.bus.base)
        self._ended = asyncio.Event()
        self._error: ArteryError | None = None
        self._watching = False

    async def run(self) -> None:
        """Lead once; when the term ends, for whatever reason, so does this process."""
        lock = open_lock(self._settings.live.url, self._store)
        tasks = [
            asyncio.ensure_future(lead(lock, LOCK, self._term, LOCK_TTL_S)),
            asyncio.ensure_future(self._stand_by()),
            asyncio.ensure_future(self._ended.wait()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._error:
                raise self._error
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for part in (lock, self._bus, self._store):
                await part.close()

    async def _stand_by(self) -> None:
        """Show that this process lives while another leads, or Spark starts."""
        while not self._watching:
            self._alive()
            await asyncio.sleep(1.0)
        await asyncio.Event().wait()

    async def _term(self, term: Term) -> None:
        """One term as the leader; its errors end the process, so they are handed to `run`."""
        try:
            await self._lead(term)
        except asyncio.CancelledError:
            self._end(Unavailable("the pipeline no longer leads"))
            raise
        except ArteryError as error:
            await self._say({"state": "failed", "error": str(error)})
            self._end(error)

    def _end(self, error: ArteryError) -> None:
        self._error = self._error or error
        self._ended.set()

    async def _lead(self, term: Term) -> None:
        began = time.monotonic()
        await self._say({"state": "starting", "error": ""})
        from artery.pipeline.publisher import run_publisher  # late, because Java starts meanwhile
        from artery.pipeline.running import Running

        publishing = asyncio.create_task(run_publisher(self._bus, self._store, self._settings))
        running = Running(self._settings, self._spark, self._bus, self._store, term.epoch)
        try:
            await running.start()
            _log.info("candles are being made", after_s=round(time.monotonic() - began, 1))
            await self._watch(running)
        finally:
            publishing.cancel()
            await running.stop()
            await asyncio.wait({publishing})

    async def _watch(self, running: "Running") -> None:
        said = 0.0
        self._watching = True
        while True:
            await running.check()
            self._alive()
            if time.monotonic() - said >= STATUS_S:
                said = time.monotonic()
                await self._say(await running.status())
            await asyncio.sleep(0.5)

    async def _say(self, status: dict[str, Any]) -> None:
        status = status | {"updated_ms": int(time.time() * 1_000), "pid": os.getpid()}
        with suppress(ArteryError):
            await self._store.put(STATUS, msgspec.json.encode(status), STATUS_TTL_S)
