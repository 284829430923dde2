"""Closes connections whose key or page's session has ended, at whichever gateway that was said."""

import time
from collections.abc import Callable

from artery.errors import ArteryError
from artery.gateway import keys
from artery.gateway.access import Access
from artery.gateway.session import REVOKED
from artery.gateway.sessions import Connection, Sessions
from artery.telemetry import logger

_WORDS = "the key was revoked or has expired"
_log = logger("gateway")


class Endings:
    """Looks at one mark in the store each time it is asked to, and at every key only when the mark has changed,
    or when nobody has looked for long: a key that is gone without a word ends then."""

    def __init__(
        self,
        access: Access,
        sessions: Sessions,
        *,
        every_s: float,
        now_ms: Callable[[], int] = keys.wall_ms,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._sessions = sessions
        self._every_s = every_s
        self._now_ms = now_ms
        self._now_s = now_s
        self._looked_s = now_s()
        self._blind = False

    async def look(self) -> None:
        """Close what has ended; a store that is away is said once, and asked again the next time."""
        self._close_expired()
        try:
            if await self._access.changed() or self._now_s() - self._looked_s >= self._every_s:
                await self._close_ended()
                self._looked_s = self._now_s()
        except ArteryError as error:
            if not self._blind:
                _log.warning("keys could not be checked again", error=str(error))
            self._blind = True
            self._looked_s = float("-inf")  # the mark may have been read, but not the keys: look at them all
        else:
            self._blind = False

    def _close_expired(self) -> None:
        now_ms = self._now_ms()
        for connection in self._sessions.everyone():
            grant = connection.session.grant if connection.session else None
            if grant is not None and grant.expires_ms is not None and now_ms >= grant.expires_ms:
                connection.close(REVOKED, _WORDS)

    async def _close_ended(self) -> None:
        ended = await self._access.ended(list(self._by_source()))
        if ended:  # whoever came meanwhile is among them too
            for source, connections in self._by_source().items():
                for connection in connections if source in ended else ():
                    connection.close(REVOKED, _WORDS)

    def _by_source(self) -> dict[str, list[Connection]]:
        found: dict[str, list[Connection]] = {}
        for connection in self._sessions.everyone():
            grant = connection.session.grant if connection.session else None
            if grant is not None:
                found.setdefault(grant.source, []).append(connection)
        return found
