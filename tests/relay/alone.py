"""A relay in a process of its own, which may end without harm to the tests: `python -m tests.relay.alone FOLDER`."""

import asyncio
import sys

import msgspec

from artery.bus.open import open_bus
from artery.relay import work
from artery.relay.service import run_relay
from artery.settings import RELAY_PORTS, Settings
from artery.store.open import open_store
from artery.wire.relays import Relay


def _ready(where: Relay) -> None:
    print(msgspec.json.encode(where).decode(), flush=True)


async def _main(folder: str) -> None:
    work.BEAT_S = 0.1
    settings = Settings().with_(data={"dir": folder}, relay=dict.fromkeys(RELAY_PORTS, 0))
    settings.folder.mkdir()
    await run_relay(settings, open_bus(settings.bus_url()), open_store(settings.store_url()), _ready)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
