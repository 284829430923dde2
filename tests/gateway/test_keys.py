"""A key opens what it was made for, for as long as it was meant to, and its secret is nowhere."""

import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artery.errors import BadInput, ForbiddenScope, NotAllowed
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
    with pytest.raises(BadInput):
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
