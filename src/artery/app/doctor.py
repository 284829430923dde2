"""What this machine has and what it lacks."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from artery.app import machine, preflight
from artery.app.doctor_lake import cluster_rows
from artery.errors import ArteryError, CannotStart
from artery.pipeline.java import find_java
from artery.settings import Settings
from artery.telemetry import masked

MEMORY_MIN_MIB = 2_048
NODE_LEAST = 20
State = Literal["ok", "optional", "missing"]


class Finding(msgspec.Struct, frozen=True):
    """One part: what was found, and what to do if it is not enough."""

    part: str
    state: State
    found: str
    do: str = ""

    @property
    def ok(self) -> bool:
        return self.state != "missing"


def examine(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Look at everything that Artery needs or can use."""
    return [
        _versions(),
        _python(),
        _java(environ),
        _jars(settings),
        _page(environ),
        *_ports(settings),
        *_redis(settings),
        *_kafka(settings),
        *(Finding(part, state, found, do) for part, state, found, do in cluster_rows(settings)),
        _folder(settings.folder),
        _memory(),
        _cores(),
    ]


def _versions() -> Finding:
    names = ("artery", "pyspark", "pyiceberg", "pyarrow")
    try:
        return Finding("versions", "ok", ", ".join(f"{name} {version(name)}" for name in names))
    except PackageNotFoundError as error:
        return Finding("versions", "missing", f"{error.name} is not installed", "run scripts/setup")


def _python() -> Finding:
    return Finding("Python", "ok", f"{sys.version.split()[0]} ({sys.executable})")


def _java(environ: Mapping[str, str]) -> Finding:
    try:
        return Finding("Java", "ok", str(find_java(environ)))
    except CannotStart as error:
        found, _, do = str(error).partition(": ")
        return Finding("Java", "missing", found, do)


def _jars(settings: Settings) -> Finding:
    found = machine.jars(settings)
    if found:
        return Finding("Spark's jars", "ok", ", ".join(path.stem for path in found))
    return Finding("Spark's jars", "missing", "none", "run scripts/setup")


def _page(environ: Mapping[str, str]) -> Finding:
    if folder := machine.page():
        return Finding("the page", "ok", str(folder))
    node = _node(environ)
    do = "run scripts/setup" if node >= NODE_LEAST else f"install Node {NODE_LEAST} or later, then run scripts/setup"
    return Finding("the page", "optional", f"not built (Node {node or 'is not here'})", do)


def _node(environ: Mapping[str, str]) -> int:
    path = shutil.which("node", path=environ.get("PATH", os.defpath))
    if not path:
        return 0
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=machine.LOOK_S, check=False)
        return int(said.stdout.strip().lstrip("v").partition(".")[0])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


def _ports(settings: Settings) -> Iterator[Finding]:
    wanted = [("gateway", settings.gateway.host, settings.gateway.port, "ART_GATEWAY_PORT")]
    if settings.simulated:
        wanted.append(("simulated venue", "127.0.0.1", settings.sim.port, "ART_SIM_PORT"))
    runs = preflight.is_running(settings.folder)
    for who, host, port, setting in wanted:
        why = machine.why_not_bound(host, port) if port else ""
        if why and not runs:
            yield Finding(f"port of the {who}", "missing", f"{port} is {why}", f"stop what uses it, or set {setting}")
        else:
            yield Finding(f"port of the {who}", "ok", f"{port}, " + ("Artery runs on it" if why else "free"))


def _redis(settings: Settings) -> Iterator[Finding]:
    """The Redis servers that the settings name: whether they answer, and what is wrong with their set-up."""
    parts = {"ART_BUS_URL": "the log's Redis", "ART_LIVE_URL": "pub/sub's Redis", "ART_STORE_URL": "the store's Redis"}
    for setting, url in preflight.redis_urls(settings).items():
        part = parts[setting]
        try:
            from artery.bus.redis_check import look_at_redis

            wrong = asyncio.run(look_at_redis(url, setting))
        except ImportError:
            yield Finding(part, "missing", "the redis package is not installed", "install artery with the extra redis")
            continue
        except ArteryError as error:
            yield Finding(part, "missing", "cannot be used", masked(str(error)))
            continue
        yield from [Finding(part, "optional", "answers", one) for one in wrong] or [Finding(part, "ok", "answers")]


def _kafka(settings: Settings) -> Iterator[Finding]:
    """The Kafka cluster that the settings name: whether it answers, and what is wrong with the log's topics."""
    if not settings.bus.url.startswith("kafka://"):
        return
    part = "the log's Kafka"
    try:
        from artery.bus.kafka_check import look_at_kafka

        wrong = look_at_kafka(settings.bus.url, settings.bus.base)
    except ArteryError as error:
        yield Finding(part, "missing", "cannot be used", masked(str(error)))
        return
    yield from [Finding(part, "optional", "answers", one) for one in wrong] or [Finding(part, "ok", "answers")]


def _folder(folder: Path) -> Finding:
    """Looks at the folder, or at the nearest one above it that exists, and leaves nothing behind."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    why = "cannot be written" if not os.access(there, os.W_OK) else ""
    free = shutil.disk_usage(there).free
    if free < machine.ROOM_MIN_BYTES:
        why = "is on a full disk"
    if why:
        return Finding("data folder", "missing", f"{folder} {why}", "make room, or set ART_DATA_DIR to another folder")
    return Finding("data folder", "ok", f"{folder}, {free / 2**30:.0f} GiB free")


def _memory() -> Finding:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return Finding("memory", "optional", "this system does not say")
    mib = pages * size // 2**20
    if mib < MEMORY_MIN_MIB:
        return Finding("memory", "missing", f"{mib} MiB", f"Artery with Spark needs about {MEMORY_MIN_MIB} MiB")
    return Finding("memory", "ok", f"{mib} MiB")


def _cores() -> Finding:
    cores = os.cpu_count() or 1
    return Finding("cores", "ok" if cores > 1 else "optional", str(cores), "" if cores > 1 else "two make it smooth")
