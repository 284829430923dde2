"""A key opens what it was made for, for as long as it was meant to, and its secret is nowhere."""

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.errors import BadInput, ForbiddenScope, NotAllowed, NotFound
from artery.gateway import keys
from artery.gateway.access import Access, Credential, need
from artery.gateway.grants import Scope
from artery.store.base import Store
from artery.store.open import open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    await opened.close()


async def test_a_key_is_shown_once_and_kept_as_a_hash(store: Store, tmp_path: Path) -> None:
    key, text = await keys.make_key(store, "ann", ["read", "stream"])
    assert re.fullmatch(r"art_live_[a-z0-9]{12}\.[A-Za-z0-9_-]{43}", text)
    secret = text.split(".")[1]
    kept = await store.get(f"artery:key:{key.id}")
    assert kept is not None
    assert secret.encode() not in kept
    found = await keys.verify(store, text)
    assert (found.user, found.scopes) == ("ann", ("read", "stream"))


async def test_a_wrong_text_is_refused_whatever_is_wrong_with_it(store: Store) -> None:
    key, text = await keys.make_key(store, "ann", ["read"])
    _, other = await keys.make_key(store, "bob", ["read"])
    mixed = text.split(".")[0] + "." + other.split(".")[1]
    for wrong in ("", "x", text[:-1], text + "A", mixed, f"art_live_{'0' * 12}.{text.split('.')[1]}", "é" * 60):
        with pytest.raises(NotAllowed):
            await keys.verify(store, wrong)
    assert key.id in text


async def test_an_expired_and_a_revoked_key_are_refused(store: Store) -> None:
    _, short = await keys.make_key(store, "ann", ["read"], expires_ms=1_000)
    assert (await keys.verify(store, short, now_ms=lambda: 999)).user == "ann"
    with pytest.raises(NotAllowed):
        await keys.verify(store, short, now_ms=lambda: 1_000)
    key, text = await keys.make_key(store, "ann", ["read"])
    assert (await keys.revoke(store, key.id)).revoked_ms
    with pytest.raises(NotAllowed):
        await keys.verify(store, text)
    assert [found.revoked_ms is not None for found in await keys.list_keys(store)].count(True) == 1
    with pytest.raises(NotFound):
        await keys.revoke(store, "nobody")


@pytest.mark.parametrize("scopes", [[], ["read", "everything"]])
async def test_a_key_needs_scopes_that_exist(store: Store, scopes: list[str]) -> None:
    with pytest.raises(BadInput, match="scopes"):
        await keys.make_key(store, "ann", scopes)


async def test_the_local_key_is_made_once_in_a_file_of_its_own(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    text = await keys.local_key(store, folder)
    assert stat.S_IMODE((folder / "key").stat().st_mode) == 0o600
    assert (folder / "key").read_text().strip() == text
    assert await keys.local_key(store, folder) == text
    assert set((await keys.verify(store, text)).scopes) == set(Scope)


@pytest.mark.parametrize("content", ["", "nonsense", "art_live_000000000000." + "a" * 43, "\u00ff"])
async def test_a_key_file_that_the_store_does_not_know_is_made_anew(store: Store, tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    text = await keys.local_key(store, tmp_path)
    assert (await keys.verify(store, text)).user == keys.LOCAL_USER
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


async def test_a_start_code_opens_the_page_once(store: Store) -> None:
    access = Access(store)
    code = await keys.make_start_code(store)
    cookie, grant = await access.open_page(start=code)
    assert grant.user == keys.LOCAL_USER
    assert (await access.verify(Credential(cookie=cookie))).source == grant.source
    with pytest.raises(NotAllowed):
        await access.open_page(start=code)
    with pytest.raises(NotAllowed):
        await access.open_page(start="made up")


async def test_a_page_opened_with_a_key_ends_with_the_key(store: Store) -> None:
    clock = [0.0]
    access = Access(store, now_s=lambda: clock[0])
    key, text = await keys.make_key(store, "ann", ["read"])
    cookie, grant = await access.open_page(key=text)
    assert (await access.verify(Credential(cookie=cookie))).user == "ann"
    assert await access.still_valid(grant.source)
    await keys.revoke(store, key.id)
    assert not await access.still_valid(grant.source)
    assert not await access.still_valid(f"artery:key:{key.id}")
    clock[0] = 2.1
    with pytest.raises(NotAllowed):
        await access.verify(Credential(cookie=cookie))
    with pytest.raises(NotAllowed):
        await access.verify(Credential(key=text))


async def test_a_closed_page_is_closed_at_once(store: Store) -> None:
    access = Access(store)
    cookie, _ = await access.open_page(start=await keys.make_start_code(store))
    await access.verify(Credential(cookie=cookie))
    await access.close_page(cookie)
    with pytest.raises(NotAllowed):
        await access.verify(Credential(cookie=cookie))


async def test_a_scope_that_is_missing_is_named(store: Store) -> None:
    _, text = await keys.make_key(store, "ann", ["read"])
    grant = await Access(store).verify(Credential(key=text))
    assert need(grant, Scope.READ) is grant
    with pytest.raises(ForbiddenScope, match="admin"):
        need(grant, Scope.ADMIN)


async def test_showing_nothing_is_refused(store: Store) -> None:
    with pytest.raises(NotAllowed):
        await Access(store).verify(Credential())


async def test_an_end_can_be_set_moved_and_taken_away_but_a_revoked_key_stays_so(store: Store) -> None:
    key, text = await keys.make_key(store, "ann", ["read"])
    soon = keys.wall_ms() + 60_000
    assert (await keys.expire(store, key.id, soon)).expires_ms == soon
    assert (await keys.verify(store, text)).grant().expires_ms == soon
    assert (await keys.expire(store, key.id, None)).expires_ms is None
    await keys.expire(store, key.id, keys.wall_ms())
    with pytest.raises(NotAllowed):
        await keys.verify(store, text)
    await keys.revoke(store, key.id)
    with pytest.raises(BadInput, match="revoked"):
        await keys.expire(store, key.id, None)
    with pytest.raises(NotAllowed):
        await keys.verify(store, text)


async def test_a_key_that_is_revoked_and_moved_at_once_ends_revoked(store: Store) -> None:
    for _ in range(20):
        key, _ = await keys.make_key(store, "ann", ["read"])
        await asyncio.gather(
            *(keys.expire(store, key.id, keys.wall_ms() + n * 1_000) for n in range(3)),
            keys.revoke(store, key.id),
            return_exceptions=True,
        )
        found = await keys.find(store, key.id)
        assert found is not None
        assert found.revoked_ms is not None


def test_a_key_that_has_ended_is_kept_for_a_while_and_one_that_has_not_for_ever() -> None:
    key = keys.Key("0" * 12, "ann", ("read",), "0" * 64, 0)
    assert key.kept_s(0) is None
    assert keys.Key("0" * 12, "ann", ("read",), "0" * 64, 0, expires_ms=60_000).kept_s(0) == keys.KEPT_S + 60
    assert keys.Key("0" * 12, "ann", ("read",), "0" * 64, 0, None, 1).kept_s(0) == keys.KEPT_S


@pytest.mark.parametrize("user", ["", "a" * 129, "a\nb", "\x00"])
async def test_a_user_has_a_name_that_can_be_printed(store: Store, user: str) -> None:
    with pytest.raises(BadInput, match="user"):
        await keys.make_key(store, user, ["read"])


class Counting:
    """A store that counts how often it is read, and can be held up while it reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.free = asyncio.Event()
        self.free.set()
        self.waiting = asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes | None:
        found = await self._store.get(key)
        if key.startswith(keys.PREFIX):
            self.reads += 1
            self.waiting.set()
            await self.free.wait()
        return found


async def test_a_verified_key_is_not_asked_for_again_until_a_key_has_ended_somewhere(store: Store) -> None:
    counting, clock = Counting(store), [0.0]
    access = Access(counting, now_s=lambda: clock[0])  # type: ignore[arg-type]
    _, text = await keys.make_key(store, "ann", ["read"])
    other, _ = await keys.make_key(store, "bob", ["read"])
    for _ in range(100):
        await access.verify(Credential(key=text))
    assert counting.reads == 1
    assert not await access.changed()
    await keys.revoke(store, other.id)
    assert await access.changed()
    assert not await access.changed()
    await access.verify(Credential(key=text))
    assert counting.reads == 2
    clock[0] = 2.1
    await access.verify(Credential(key=text))
    assert counting.reads == 3


async def test_a_key_that_is_revoked_while_it_is_verified_does_not_get_in(store: Store) -> None:
    counting = Counting(store)
    access = Access(counting)  # type: ignore[arg-type]
    key, text = await keys.make_key(store, "ann", ["stream"])
    counting.free.clear()
    verifying = asyncio.create_task(access.verify(Credential(key=text)))
    await counting.waiting.wait()  # the store has said yes, but the answer is still on its way
    await keys.revoke(store, key.id)
    assert await access.changed()
    counting.free.set()
    with pytest.raises(NotAllowed):
        await verifying
    with pytest.raises(NotAllowed):
        await access.verify(Credential(key=text))


async def test_many_records_are_looked_at_together(store: Store) -> None:
    access = Access(store)
    made = [await keys.make_key(store, "ann", ["read"]) for _ in range(40)]
    gone = {f"artery:key:{key.id}" for key, _ in made[::3]}
    for key, _ in made[::3]:
        await keys.revoke(store, key.id)
    assert await access.ended([f"artery:key:{key.id}" for key, _ in made]) == gone
