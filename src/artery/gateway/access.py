"""Who may come in: keys, the page's cookie, and one-use start codes for it."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable

import msgspec

from artery.errors import ForbiddenScope, NotAllowed, TooMuch, Unavailable
from artery.gateway import keys
from artery.gateway.grants import Grant, Scope
from artery.gateway.rates import Rates, network
from artery.store.base import Store

SESSION = "artery:session:"
SESSION_S = 30 * 86_400

_CACHE_S = 2.0
_CACHE_MAX = 4_096
_AT_ONCE = 16
_TRIES = 5


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
    """Verifies what clients show. A yes holds for two seconds, or until a key ends anywhere."""

    def __init__(
        self,
        store: Store,
        *,
        now_ms: Callable[[], int] = keys.wall_ms,
        now_s: Callable[[], float] = time.monotonic,
        strangers: Rates | None = None,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._now_s = now_s
        self._strangers = Rates(0, 0) if strangers is None else strangers
        self._known: dict[str, tuple[Grant, float]] = {}
        self._mark: bytes | None = None
        self._generation = 0

    async def verify(self, credential: Credential, address: str = "") -> Grant:
        """The grant behind a credential, or `NotAllowed`; `TooMuch` if too many wrong ones came from this address."""
        name = keys.hashed(f"{credential.key}\n{credential.cookie}")
        known = self._known.get(name)
        if known is not None and known[1] > self._now_s() and not self._expired(known[0]):
            return known[0]
        try:
            if known is None:  # who was let in before does not wait for what others at its address have done
                self._refuse_if_too_many(address)
            grant = await self._verify_now(credential)
        except NotAllowed:
            self._known.pop(name, None)
            self._strangers.spend(network(address), self._now_s())
            raise
        if len(self._known) >= _CACHE_MAX:
            self._known.clear()
        self._known[name] = (grant, self._now_s() + _CACHE_S)
        return grant

    def admit(self, address: str, cost: float = 1.0) -> None:
        """Count what somebody without a key asks for, or `TooMuch`."""
        self._refuse_if_too_many(address, cost)
        self._strangers.spend(network(address), self._now_s(), cost)

    async def changed(self) -> bool:
        """Whether a key or a page's session has ended since the last call, here or at another gateway."""
        mark = await self._store.get(keys.CHANGED)
        if mark == self._mark:
            return False
        self._mark = mark
        self._forget()
        return True

    async def ended(self, sources: Iterable[str]) -> set[str]:
        """Those of these records that no longer stand."""
        found: set[str] = set()
        names = list(sources)
        for at in range(0, len(names), _AT_ONCE):
            part = names[at : at + _AT_ONCE]
            valid = await asyncio.gather(*(self.still_valid(source) for source in part))
            found.update(source for source, stands in zip(part, valid, strict=True) if not stands)
        return found

    async def still_valid(self, source: str) -> bool:
        """Whether the record that a grant rests on still stands."""
        if source.startswith(SESSION):
            return await self._page(source) is not None
        key = await keys.find(self._store, source.removeprefix(keys.PREFIX))
        return key is not None and key.valid(self._now_ms())

    async def open_page(self, *, start: str = "", key: str = "", address: str = "") -> tuple[str, Grant]:
        """A cookie's value for a start code or a key; a start code is used up by it."""
        try:
            self._refuse_if_too_many(address)
            page = await self._start(start) if start else await self._keyed(key)
        except NotAllowed:
            self._strangers.spend(network(address), self._now_s())
            raise
        value = secrets.token_urlsafe(32)
        source = SESSION + keys.hashed(value)
        await self._store.put(source, msgspec.json.encode(page), ttl_s=SESSION_S)
        return value, Grant(page.user, frozenset(page.scopes), source)

    async def close_page(self, cookie: str) -> None:
        """End the page's session, and its connections at every gateway."""
        if await self._store.delete(SESSION + keys.hashed(cookie)):
            await keys.announce(self._store)
        self._forget()

    def _refuse_if_too_many(self, address: str, cost: float = 1.0) -> None:
        wait_s = self._strangers.wait_s(network(address), self._now_s(), cost)
        if wait_s:
            raise TooMuch("too many requests without a valid key came from this address; wait a moment", wait_s)

    def _forget(self) -> None:
        self._known = {name: (grant, 0.0) for name, (grant, _) in self._known.items()}
        self._generation += 1

    async def _start(self, code: str) -> _Page:
        name = keys.START + keys.hashed(code)
        if await self._store.get(name) is None or not await self._store.delete(name):
            raise NotAllowed("this link was used or is too old; `artery open` makes a new one")
        return _Page(keys.LOCAL_USER, tuple(keys.ALL_SCOPES))

    async def _keyed(self, text: str) -> _Page:
        key = await keys.verify(self._store, text, now_ms=self._now_ms)
        return _Page(key.user, key.scopes, key.id)

    async def _verify_now(self, credential: Credential) -> Grant:
        """What the store says; again, if a key has ended while it was asked: the answer may be older than that."""
        for _ in range(_TRIES):
            generation = self._generation
            grant = await self._verify(credential)
            if generation == self._generation:
                return grant
        raise Unavailable("keys are changing too fast to verify one now: try again")

    async def _verify(self, credential: Credential) -> Grant:
        if credential.key or not credential.cookie:
            return (await keys.verify(self._store, credential.key, now_ms=self._now_ms)).grant()
        source = SESSION + keys.hashed(credential.cookie)
        grant = await self._page(source)
        if grant is None:
            raise NotAllowed("the page's session is over; `artery open` makes a new link")
        return grant

    async def _page(self, source: str) -> Grant | None:
        raw = await self._store.get(source)
        if raw is None:
            return None
        try:
            page = msgspec.json.decode(raw, type=_Page)
        except msgspec.MsgspecError:
            return None
        expires_ms = None
        if page.key:
            key = await keys.find(self._store, page.key)
            if key is None or not key.valid(self._now_ms()):
                return None
            expires_ms = key.expires_ms
        return Grant(page.user, frozenset(page.scopes), source, expires_ms)

    def _expired(self, grant: Grant) -> bool:
        return grant.expires_ms is not None and self._now_ms() >= grant.expires_ms


def need(grant: Grant, scope: Scope) -> Grant:
    """The grant, if it has this scope."""
    if scope not in grant.scopes:
        raise ForbiddenScope(f"this key lacks the scope {scope}")
    return grant
