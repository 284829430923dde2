"""One connection that hears every channel somebody here has asked for, and finds its way back by itself."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis import exceptions

from artery.errors import ArteryError, Unavailable
from artery.store.redis_link import Link, Wire
from artery.store.redis_server import CALL_S
from artery.telemetry import logger

QUIET_S = 1.0
"""After this long without a word the server is asked for one; after twice as long it is taken for gone."""
BATCH = 256
PAUSE_MAX_S = 2.0
SUBSCRIBE_MAX = 1_000

_log = logger("live")


class Listener:
    """`hear(channel, data)` is called for every message, in the order of each channel. While the connection is away,
    messages are missed: who needs all of them finds the hole by their positions."""

    def __init__(self, link: Link, hear: Callable[[str, bytes], None]) -> None:
        self._link = link
        self._hear = hear
        self._wanted: set[str] = set()
        self._confirmed: set[str] = set()
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: ArteryError | None = None

    async def want(self, channels: Iterable[str]) -> None:
        """Return when the server has confirmed them all, or raise in time; those that are wanted stay so."""
        self._wanted.update(channels)
        missing = [channel for channel in channels if channel not in self._confirmed]
        if not missing:
            return
        loop = asyncio.get_running_loop()
        waits = [self._waiting.setdefault(channel, loop.create_future()) for channel in missing]
        if self._task is None:
            self._task = loop.create_task(self._run())
        elif self._wire is not None:
            await self._send(self._wire, "SUBSCRIBE", missing)
        await asyncio.wait(waits, timeout=CALL_S)
        if not self._confirmed.issuperset(missing):
            raise self._error or Unavailable(f"{self._link.server.name} did not confirm a subscription: try again")

    async def leave(self, channels: Sequence[str]) -> None:
        self._wanted.difference_update(channels)
        self._confirmed.difference_update(channels)
        self._settle(channels)
        if self._wire is not None and channels:
            await self._send(self._wire, "UNSUBSCRIBE", channels)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _send(self, wire: Wire, word: str, channels: Sequence[str]) -> None:
        """A connection that fails is noticed by who reads it, and all is asked for again."""
        parts = [channels[at : at + SUBSCRIBE_MAX] for at in range(0, len(channels), SUBSCRIBE_MAX)]
        with suppress(exceptions.RedisError, OSError, TimeoutError):
            async with asyncio.timeout(CALL_S):
                await wire.send([(word, *part) for part in parts])

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen()
            except (ArteryError, exceptions.RedisError, OSError) as error:
                failures = 0 if self._error is None else failures + 1
                self._failed(self._link.server.translate(error))
            await asyncio.sleep(min(PAUSE_MAX_S, 0.05 * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0))

    def _failed(self, error: ArteryError) -> None:
        if self._error is None:
            _log.warning("pub/sub was interrupted, messages may be missed", error=str(error))
        self._error = error
        if not error.temporary:  # whoever waits need not wait longer
            self._settle(list(self._waiting))

    async def _listen(self) -> None:
        wire = await self._link.open()
        try:
            self._wire = wire
            if self._wanted:
                await self._send(wire, "SUBSCRIBE", sorted(self._wanted))
            await self._read(wire)
        finally:
            self._wire = None
            self._confirmed.clear()
            await wire.drop()

    async def _read(self, wire: Wire) -> None:
        asked = False
        while True:
            heard = 0
            try:
                async with asyncio.timeout(QUIET_S):
                    while heard < BATCH:
                        self._take(await wire.reply())
                        heard += 1
            except TimeoutError:
                if not heard and asked:
                    raise self._link.server.silent() from None
                asked = not heard
                if asked:
                    await wire.send([("PING",)])
                continue
            asked, self._error = False, None
            await asyncio.sleep(0)  # a flood of messages must leave the others their turn

    def _take(self, reply: Any) -> None:
        if not isinstance(reply, list):
            return
        kind, name = reply[0], reply[1].decode("utf-8", "replace")
        if kind == b"message":
            self._hear(name, reply[2])
        elif kind == b"subscribe" and name in self._wanted:
            self._confirmed.add(name)
            self._error = None
            self._settle([name])

    def _settle(self, channels: Sequence[str]) -> None:
        for channel in channels:
            waiting = self._waiting.pop(channel, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
