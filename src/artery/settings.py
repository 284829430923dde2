"""Every setting, with its default and its meaning beside it: `ART_<SECTION>_<NAME>` sets it."""

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artery.errors import BadSetting

_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def _setting(default: Any, doc: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "secret": secret})


@dataclass(frozen=True, slots=True)
class Data:
    dir: str = _setting("data", "folder for everything that Artery keeps; each venue has a folder of its own in it")


@dataclass(frozen=True, slots=True)
class Log:
    level: str = _setting("info", "debug, info, warning or error")
    json: bool = _setting(False, "write log lines as JSON")


@dataclass(frozen=True, slots=True)
class Stream:
    workers: bool = _setting(True, "off starts no feed in this process")


@dataclass(frozen=True, slots=True)
class Bus:
    url: str = _setting(
        "",
        "where the log is: empty for SQLite in the data folder, sqlite:///path, or redis://host:6379/0",
        secret=True,
    )
    base: str = _setting("md_stream", "first part of every stream's name")


@dataclass(frozen=True, slots=True)
class Live:
    url: str = _setting(
        "",
        "where pub/sub and the leader lock are: empty for in this process, or redis://host:6379/0",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class Store:
    url: str = _setting(
        "",
        "where small shared state is: empty for SQLite in the data folder, sqlite:///path, or redis://host:6379/0",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class Ingest:
    provider: str = _setting("sim", "the venue: sim or hyperliquid_perp")
    markets: tuple[str, ...] = _setting(
        ("BTC", "ETH", "SOL", "HYPE", "DOGE", "XRP"), "markets to follow, separated by commas"
    )
    books_per_s: float = _setting(10.0, "order books kept a second and market; newest wins")
    grace_s: float = _setting(1.0, "how long a trade may be on its way before candles close over it")
    lock_ttl_s: float = _setting(30.0, "how long a feed without a sign of life keeps its leader lock")
    history_days: float = _setting(3.0, "how much of the past is fetched at the first start")
    demand_max: int = _setting(
        200, "markets followed because clients want them, beside those of the settings; the venue's limits hold too"
    )
    demand_leave_s: float = _setting(30.0, "how long a market is still wanted after the last client has left it")
    symbols_s: float = _setting(60.0, "time between two looks at the venue's list of markets")
    queue_max: int = _setting(
        100_000, "events that may wait for the bus before trades are dropped and marked as a hole"
    )


@dataclass(frozen=True, slots=True)
class Sim:
    port: int = _setting(8091, "port of the simulated venue; 0 takes a free one")
    seed: int = _setting(7, "the same seed gives the same market")
    trades_per_s: float = _setting(30.0, "trades a second over all markets")
    books_per_s: float = _setting(2.0, "whole order books a second and market")
    candles_kept: int = _setting(5_000, "candles of each interval that can still be asked for; 0: all since 1970")


@dataclass(frozen=True, slots=True)
class Venue:
    ws_url: str = _setting("", "WebSocket of the venue, if not its usual one")
    rest_url: str = _setting("", "REST address of the venue, if not its usual one")
    fast_books: bool = _setting(False, "five levels twice a second instead of twenty every five seconds")


@dataclass(frozen=True, slots=True)
class Lake:
    catalog_url: str = _setting(
        "",
        "where the lake's catalog is: empty for SQLite in the data folder, or postgresql://user:password@host/database",
        secret=True,
    )
    keep_min: float = _setting(10.0, "minutes for which a table's version can be read once a newer one is there")
    pin_h: float = _setting(24.0, "hours for which the version that a notification named can be read")


@dataclass(frozen=True, slots=True)
class Pipeline:
    master: str = _setting("local[2]", "Spark's master: local[2], or spark://host:7077 for a cluster")
    periods: tuple[str, ...] = _setting(
        ("1m", "5m", "15m", "1h", "4h", "1d"), "lengths of the candles that are made, separated by commas"
    )
    host: str = _setting("127.0.0.1", "address under which a cluster's workers reach the driver")
    trigger_ms: int = _setting(500, "time between micro-batches of the candle query")
    slow_candle_s: float = _setting(5.0, "time between two versions of an open candle longer than a minute")
    store_s: float = _setting(10.0, "time between commits to the lake")
    slow_store_s: float = _setting(
        30.0, "time between commits of candles, books and gaps; a venue's history comes at once"
    )
    book_s: float = _setting(1.0, "time between two books of one market in the lake")
    heap_mb: int = _setting(320, "memory of the driver's Java heap")
    executor_mb: int = _setting(512, "on a cluster, memory of the Java heap of each executor")
    batch_max: int = _setting(
        400_000, "trades in one micro-batch of candles, at most; in one for the lake half as many"
    )
    publish_url: str = _setting(
        "", "where the pipeline listens for relays that connect to it (tcp://host:5557); empty: it connects to relays"
    )
    jars: str = _setting("", "folder of Spark's further jars, if not .cache/jars/spark beside the source")


@dataclass(frozen=True, slots=True)
class Engine:
    workers: bool = _setting(True, "off computes no indicators in this process")
    pace_ms: int = _setting(500, "time between two rounds of the indicator engine, at least")
    save_s: float = _setting(5.0, "time between two saves of the engine's sums of trades; what it read is acked then")


@dataclass(frozen=True, slots=True)
class Gateway:
    host: str = _setting("127.0.0.1", "address that HTTP and WebSocket listen on")
    port: int = _setting(8080, "port of HTTP and WebSocket; 0 takes a free one")
    origins: tuple[str, ...] = _setting((), "further Origins whose pages may connect, separated by commas")
    hosts: tuple[str, ...] = _setting((), "further Host names that the gateway answers to, separated by commas")
    requests_per_s: float = _setting(
        100.0, "HTTP requests a second of one key, in bursts of four times as many; 0: any"
    )
    connects_per_s: float = _setting(
        100.0, "WebSocket connections a second of one key, in bursts of twenty times as many; 0: any"
    )
    demand_max: int = _setting(200, "markets beside those of the settings that one gateway may have followed")
    key_demand_max: int = _setting(50, "markets beside those of the settings that one key may have followed")
    strangers_per_s: float = _setting(
        20.0, "requests a second without a valid key from one address, in bursts of four times as many; 0: any"
    )


@dataclass(frozen=True, slots=True)
class Relay:
    on: bool = _setting(True, "off starts no relay under `artery up`")
    host: str = _setting("127.0.0.1", "address that the relay's ZeroMQ sockets listen on")
    advertise: str = _setting(
        "", "name or address by which other machines reach the relay, if not ART_RELAY_HOST; 0.0.0.0 and :: need it"
    )
    request_port: int = _setting(5559, "port for clients' requests; 0 takes a free one, as for the next four")
    work_port: int = _setting(5555, "port where ingestors hear of work")
    control_port: int = _setting(5556, "port where ingestors are told what to do")
    processor_port: int = _setting(5557, "port where processors send what they have made")
    client_port: int = _setting(5558, "port where clients subscribe")
    demand_max: int = _setting(200, "markets beside those of the settings that one relay may have followed")
    processors: tuple[str, ...] = _setting(
        (),
        "processors that the relay connects to, instead of listening for them: tcp://host:5557, or name:5557 for every"
        " address that DNS has for the name, asked again every 5 s",
    )
    nameserver: str = _setting("", "address of the name server for that (127.0.0.1:53), if not the system's")
    keys: str = _setting(
        "", "folder of the relay's key pair and of whom it lets in; without one it listens on loopback alone"
    )
    key: str = _setting("", "file of the key pair that ingest, the pipeline and `artery history` show to such a relay")


RELAY_PORTS = tuple(item.name for item in dataclasses.fields(Relay) if item.name.endswith("_port"))
"""The names of the relay's settings that are ports."""


@dataclass(frozen=True, slots=True)
class Crash:
    point: str = _setting("", "for tests: the point at which this process kills itself (see crash.py)")


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it, frozen; made once at start and handed down."""

    data: Data = Data()
    log: Log = Log()
    stream: Stream = Stream()
    bus: Bus = Bus()
    live: Live = Live()
    store: Store = Store()
    ingest: Ingest = Ingest()
    sim: Sim = Sim()
    venue: Venue = Venue()
    lake: Lake = Lake()
    pipeline: Pipeline = Pipeline()
    engine: Engine = Engine()
    gateway: Gateway = Gateway()
    relay: Relay = Relay()
    crash: Crash = Crash()

    @property
    def simulated(self) -> bool:
        return self.ingest.provider == "sim"

    @property
    def folder(self) -> Path:
        """This venue's own folder: simulated and real data are never mixed."""
        return Path(self.data.dir).expanduser().absolute() / self.ingest.provider

    def bus_url(self) -> str:
        return self.bus.url or f"sqlite:///{self.folder}/bus.db"

    def store_url(self) -> str:
        return self.store.url or f"sqlite:///{self.folder}/store.db"

    def rows(self) -> Iterator[tuple[str, Any, Any, str, bool]]:
        """(name, value, default, doc, secret) of each setting."""
        for section in dataclasses.fields(self):
            group = getattr(self, section.name)
            for item in dataclasses.fields(group):
                name = f"ART_{section.name}_{item.name}".upper()
                yield (
                    name,
                    getattr(group, item.name),
                    item.default,
                    item.metadata["doc"],
                    item.metadata["secret"],
                )

    def environment(self) -> dict[str, str]:
        """The variables that give another process the same settings."""
        return {name: as_text(value) for name, value, default, _, _ in self.rows() if value != default}

    def with_(self, **sections: Mapping[str, Any]) -> "Settings":
        """A copy with some values changed: `with_(gateway={"port": 0})`."""
        changed = {name: dataclasses.replace(getattr(self, name), **values) for name, values in sections.items()}
        return dataclasses.replace(self, **changed)


def load(environ: Mapping[str, str]) -> Settings:
    """The settings that these environment variables ask for; an unknown `ART_` name is refused."""
    defaults = {name: default for name, _, default, _, _ in Settings().rows()}
    values: dict[str, dict[str, Any]] = {}
    for name, text in environ.items():
        if not name.startswith("ART_"):
            continue
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `artery settings` lists all of them"
            raise BadSetting(f"{name} is not a setting{hint}")
        section, item = name.removeprefix("ART_").lower().split("_", 1)
        values.setdefault(section, {})[item] = _parse(name, text, defaults[name])
    return Settings().with_(**values)


def as_text(value: Any) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _parse(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return _parse_bool(text)
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        value = type(default)(text)
    except ValueError:
        wanted = {bool: "on or off", int: "a whole number", float: "a number"}[type(default)]
        raise BadSetting(f"{name} must be {wanted}, not {text!r:.40}") from None
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise BadSetting(f"{name} must not be below zero or without end, not {text!r:.40}")
    return value


def _parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _TRUE + _FALSE:
        raise ValueError(text)
    return lowered in _TRUE
