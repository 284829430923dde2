"""The relay, in a process of its own or beside ingest and gateway."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from artery.app.notes import Beat, Note, write_note
from artery.app.wiring import Parts, opened, opened_store
from artery.errors import BadSetting, NotFound, Unavailable
from artery.settings import Settings

if TYPE_CHECKING:
    from artery.wire.relays import Relay


LISTENS_S = 2.0
"""How long a relay may take to let someone connect."""


async def serve_relay(settings: Settings) -> None:
    """The relay alone: any number of them, each on ports of its own."""
    async with opened(settings) as parts, asyncio.TaskGroup() as group:
        group.create_task(Beat(settings.folder, "relay").for_ever())
        group.create_task(relay(settings, parts, "relay"))


async def relay(settings: Settings, parts: Parts, service: str = "") -> None:
    """The relay beside others, unless it is off; a port that is taken keeps only the relay waiting."""
    from artery.relay.service import run_relay

    def ready(found: "Relay") -> None:
        if service:
            write_note(settings.folder, Note(service, os.getpid(), found.requests))

    if settings.relay.on or service:
        await run_relay(settings, parts.bus, parts.store, ready)


async def where(settings: Settings) -> "Relay":
    """Where a relay of this data folder is that answers, and takes our key if we have one; `Unavailable` if none does.
    One that was killed is listed for a while."""
    from artery.wire import relays

    async with opened_store(settings) as store:
        found = relays.decode(await store.scan(relays.PREFIX, 100))
    for relay in relays.fitting(found, carries_key=bool(settings.relay.key)):
        if await _listens(relay.requests):
            return relay
    raise Unavailable("no relay runs on this data folder: see the log of `artery up`, or start `artery run relay`")


async def _listens(url: str) -> bool:
    """Whether someone is there, as far as a connection tells."""
    host, _, port = url.removeprefix("tcp://").rpartition(":")
    try:
        async with asyncio.timeout(LISTENS_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError, TimeoutError):
        return False
    writer.close()
    return True


def make_pair(settings: Settings, name: str, user: str, roles: Sequence[str], folder: str = "") -> Path:
    """Let a new key in, and return the file that its holder has to carry; the relay's own pair is made with the first.

    A relay that runs lets it in within a second.
    """
    from artery.wire import certificates

    home = _keys(settings, folder)
    if name == "relay":
        raise BadSetting("`relay` is the relay's own pair: choose another name")
    if not (home / certificates.RELAY).exists():
        certificates.write(home / certificates.RELAY, certificates.make("relay"), with_secret=True)
    server = certificates.own(home / certificates.RELAY).public
    made = certificates.make(name, user=user, roles=tuple(roles), server=server)
    file = home / f"{name}.key_secret"
    certificates.write(file, made, with_secret=True)
    certificates.write(home / certificates.ALLOWED / f"{name}.key", made, with_secret=False)
    return file


def revoke_pair(settings: Settings, name: str, folder: str = "") -> None:
    """Let a key in no longer; a relay that runs cuts it within a second or two."""
    from artery.wire import certificates

    file = _keys(settings, folder) / certificates.ALLOWED / f"{name}.key"
    if "/" in name or not file.is_file():
        raise NotFound(f"no key is called {name!r:.80} in {file.parent}")
    file.unlink()


def _keys(settings: Settings, folder: str) -> Path:
    chosen = folder or settings.relay.keys
    if not chosen:
        raise BadSetting("say in which folder the relay keeps its keys: --folder, or ART_RELAY_KEYS")
    return Path(chosen).expanduser()
