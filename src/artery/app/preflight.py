"""Before anything is started: what would make the start fail, said in one sentence."""

import asyncio
import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from artery.app import machine
from artery.errors import ArteryError, CannotStart
from artery.pipeline.java import find_java
from artery.settings import Settings

LOCK = "up.lock"


def check(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise the first reason why Artery cannot run here; what can be looked at without a trace comes first."""
    if is_running(settings.folder):
        raise _running(settings.folder)
    find_java(environ)
    if not machine.jars(settings):
        raise CannotStart("Spark's jars are missing; run scripts/setup")
    for setting, url in redis_urls(settings).items():
        _check_redis(setting, url)
    if settings.bus.url.startswith("kafka://"):
        _check_kafka(settings)
    _check_port("the gateway", settings.gateway.host, settings.gateway.port, "ART_GATEWAY_PORT")
    if settings.simulated:
        _check_port("the simulated venue", "127.0.0.1", settings.sim.port, "ART_SIM_PORT")
    why = machine.why_not_written(settings.folder)
    if why:
        raise CannotStart(
            f"the data folder {settings.folder} {why}; make room there, or set ART_DATA_DIR to another folder"
        )


def is_running(folder: Path) -> bool:
    """Whether an `artery up` runs on this folder."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system releases it when this process ends, however it ends."""
    with (folder / LOCK).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _running(folder) from None
        yield


def _running(folder: Path) -> CannotStart:
    return CannotStart(
        f"Artery already runs on {folder}; `artery open` shows its page, Ctrl-C in its terminal stops it"
    )


def redis_urls(settings: Settings) -> dict[str, str]:
    """The settings that name a Redis server, and what they name."""
    named = {"ART_BUS_URL": settings.bus.url, "ART_LIVE_URL": settings.live.url, "ART_STORE_URL": settings.store.url}
    return {setting: url for setting, url in named.items() if url.startswith(("redis://", "rediss://", "unix://"))}


def _check_redis(setting: str, url: str) -> None:
    """Each service would say it of itself; here it is said once, before anything was started."""
    from artery.bus.redis_check import look_at_redis

    try:
        asyncio.run(look_at_redis(url, setting))
    except ArteryError as error:
        raise CannotStart(str(error)) from error


def _check_kafka(settings: Settings) -> None:
    """The same of the brokers."""
    try:
        from artery.bus.kafka_check import look_at_kafka

        look_at_kafka(settings.bus.url, settings.bus.base)
    except ArteryError as error:
        raise CannotStart(str(error)) from error


def _check_port(who: str, host: str, port: int, setting: str) -> None:
    why = machine.why_not_bound(host, port) if port else ""
    if why:
        raise CannotStart(f"port {port} of {host}, for {who}, is {why}; stop what uses it, or set {setting} to another")
