"""Who may come in: keys, the page's cookie, and one-use start codes for it."""

import secrets
import time
from collections.abc import Callable

import msgspec

from artery.errors import ForbiddenScope, NotAllowed
from artery.gateway import keys
from artery.gateway.grants import Grant, Scope
from artery.store.base import Store

SESSION = "artery:session:"
SESSION_S = 30 * 86_400

_CACHE_S = 2.0
_CACHE_MAX = 4_096


class Credential(msgspec.Struct, frozen=True):
    """What a client shows: a key, or the cookie's value; both empty if it shows nothing."""

    key: str = ""
    cookie: str = ""


class _Page(msgspec.Struct, frozen=True):
    """The page's session as it is kept; `key` is the id of the key it was opened with, if it was."""

    user: str
    scopes: tuple[str, ...]
    key: str = ""


class Access:
    """Verifies what clients show. An answer is kept for two seconds, so a revoked key ends soon after."""

    def __init__(
        self,
        store: Store,
        *,
        now_ms: Callable[[], int] = keys.wall_ms,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._now_s = now_s
        self._known: dict[str, tuple[Grant, float]] = {}

    async def verify(self, credential: Credential) -> Grant:
        """The grant behind a credential, or `NotAllowed`."""
        name = keys.hashed(f"{credential.key}\n{credential.cookie}")
        known = self._known.get(name)
        if known is not None and known[1] > self._now_s():
            return known[0]
        self._known.pop(name, None)
        grant = await self._verify(credential)
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        self._known[name] = (grant, self._now_s() + _CACHE_S)
        return grant

    async def still_valid(self, source: str) -> bool:
        """Whether the record that a grant rests on still stands."""
        if source.startswith(SESSION):
            return await self._page(source) is not None
        key = await keys.find(self._store, source.removeprefix(keys.PREFIX))
        return key is not None and key.valid(self._now_ms())

    async def open_page(self, *, start: str = "", key: str = "") -> tuple[str, Grant]:
        """A cookie's value for a start code or a key; a start code is used up by it."""
        if start:
            page = await self._start(start)
        else:
            found = await keys.verify(self._store, key, now_ms=self._now_ms)
            page = _Page(found.user, found.scopes, found.id)
        value = secrets.token_urlsafe(32)
        source = SESSION + keys.hashed(value)
        await self._store.put(source, msgspec.json.encode(page), ttl_s=SESSION_S)
        return value, Grant(page.user, frozenset(page.scopes), source)

    async def close_page(self, cookie: str) -> None:
        """End the page's session."""
        await self._store.delete(SESSION + keys.hashed(cookie))
        self._known.clear()

    async def _start(self, code: str) -> _Page:
        name = keys.START + keys.hashed(code)
        if await self._store.get(name) is None or not await self._store.delete(name):
            raise NotAllowed("this link was used or is too old; `artery open` makes a new one")
        return _Page(keys.LOCAL_USER, tuple(keys.ALL_SCOPES))

    async def _verify(self, credential: Credential) -> Grant:
        if credential.key or not credential.cookie:
            return (await keys.verify(self._store, credential.key, now_ms=self._now_ms)).grant()
        source = SESSION + keys.hashed(credential.cookie)
        page = await self._page(source)
        if page is None:
            raise NotAllowed("the page's session is over; `artery open` makes a new link")
        return Grant(page.user, frozenset(page.scopes), source)

    async def _page(self, source: str) -> _Page | None:
        raw = await self._store.get(source)
        if raw is None:
            return None
        try:
            page = msgspec.json.decode(raw, type=_Page)
        except msgspec.MsgspecError:
            return None
        if page.key:
            key = await keys.find(self._store, page.key)
            if key is None or not key.valid(self._now_ms()):
                return None
        return page


def need(grant: Grant, scope: Scope) -> Grant:
    """The grant, if it has this scope."""
    if scope not in grant.scopes:
        raise ForbiddenScope(f"this key lacks the scope {scope}")
    return grant
