"""Processors by name: every address that DNS has for them, asked again and again."""

import asyncio
import ipaddress
import random
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from artery.errors import BadSetting
from artery.relay import metrics
from artery.relay.base import Fan
from artery.relay.crew import Crew
from artery.telemetry import logger
from artery.wire.sockets import came_or_went, tcp

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

LOOK_S = 5.0
ANSWER_S = 2.0
"""How long a look waits for the name server."""
ADDRESSES_MAX = 1_000
KINDS = ("A", "AAAA")

_log = logger("relay")


class NotNow(Exception):
    """The name server did not say: what was known still counts."""


class Discovery:
    """Keeps the fan connected to every processor that the settings name, and knows which are there."""

    def __init__(self, named: Sequence[str], nameserver: str, fan: Fan) -> None:
        self._places = [place_of(text) for text in named]
        self._nameserver = nameserver
        self._fan = fan
        self._crew = Crew()
        self._known: dict[tuple[str, int, str], set[str]] = {}
        self._nowhere: set[str] = set()

    def connected(self) -> tuple[str, ...]:
        return self._crew.connected()

    async def run(self) -> None:
        """Follow the names until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._look())

    async def _look(self) -> None:
        resolver = _resolver(self._nameserver) if any(port for _, port in self._places) else None
        while True:
            found = set[str]()
            for name, port in self._places:
                found |= await self._addresses(resolver, name, port) if port and resolver else {name}
            self._follow(found)
            await asyncio.sleep(LOOK_S * random.uniform(0.9, 1.0))

    async def _addresses(self, resolver: "Resolver", name: str, port: int) -> set[str]:
        """What the name server says of one kind counts also where it says nothing of the other: many know only A."""
        failures = list[NotNow]()
        for kind in KINDS:
            try:
                self._known[name, port, kind] = {tcp(address, port) for address in await resolve(resolver, name, kind)}
            except NotNow as error:
                failures.append(error)
        found = {url for kind in KINDS for url in self._known.get((name, port, kind), ())}
        if len(failures) < len(KINDS):
            metrics.LOOKUPS.labels("answered").inc()
            self._say_nowhere(name, nowhere=not found)
        else:
            metrics.LOOKUPS.labels("failed").inc()
            reason = str(failures[0])
            _log.warning("processors cannot be looked for, and those that are known are kept", reason=reason)
        return found

    def _say_nowhere(self, name: str, *, nowhere: bool) -> None:
        """Once each time: it may be meant so, or be a name with a slip in it."""
        if nowhere and name not in self._nowhere:
            _log.warning("the name of processors has no address now", name=name)
        (self._nowhere.add if nowhere else self._nowhere.discard)(name)

    def _follow(self, found: Collection[str]) -> None:
        now_s = time.monotonic()
        before = self._crew.urls(now_s)
        self._crew.name(found, now_s)
        wanted = self._crew.urls(now_s)
        if wanted != before:
            _log.info("processors have changed", come=sorted(wanted - before), left=sorted(before - wanted))
        self._fan.connect(wanted)

    async def _hear(self) -> None:
        """Know who is there, and leave at once who was to be left and has gone."""
        while True:
            up, url = await came_or_went(self._fan.doings)
            self._crew.came(url) if up else self._crew.went(url)
            metrics.PROCESSORS.set(len(self._crew.connected()))
            _log.info("a processor is connected" if up else "a processor's connection has ended", address=url)
            self._fan.connect(self._crew.urls(time.monotonic()))


def place_of(text: str) -> tuple[str, int]:
    """(URL, 0) of one address, or (name, port) of what DNS is asked for."""
    if "://" in text:
        return text, 0
    name, _, port = text.rpartition(":")
    if not name or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise BadSetting(f"ART_RELAY_PROCESSORS takes tcp://host:5557 or name:5557, not {text!r:.80}")
    try:
        return tcp(str(ipaddress.ip_address(name.strip("[]"))), int(port)), 0
    except ValueError:
        return name, int(port)


async def resolve(resolver: "Resolver", name: str, kind: str) -> set[str]:
    """Every address of this kind, none if there is no such name; `NotNow` if the name server does not say."""
    import dns.exception
    import dns.resolver

    try:
        answer = await resolver.resolve(name, kind, lifetime=ANSWER_S, search=True)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return set()
    except (dns.exception.DNSException, OSError) as error:
        raise NotNow(f"{name}: {error or type(error).__name__}") from error
    return set(sorted(str(record.address) for record in answer)[:ADDRESSES_MAX])


def _resolver(nameserver: str) -> "Resolver":
    """The system's, or one that asks this name server alone. Nothing is remembered longer than a look."""
    from dns.asyncresolver import Resolver  # late, because few relays look for names

    if not nameserver:
        return Resolver()
    made = Resolver(configure=False)
    address, made.port = nameserver_of(nameserver)
    made.nameservers = [address]
    return made


def nameserver_of(text: str) -> tuple[str, int]:
    """The address and port of a name server."""
    host, _, port = text.rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise BadSetting(f"ART_RELAY_NAMESERVER takes an address as in 127.0.0.1:53, not {text!r:.80}") from None
