"""What every store owes."""

import asyncio

import pytest

from artery.errors import BadInput
from artery.store.base import Store
from tests.contracts.conftest import StoreKit


async def test_what_was_put_is_got_and_nothing_else(store: Store) -> None:
    assert await store.get("a") is None
    await store.put("a", b"1")
    await store.put("b", b"\x00\xff")
    await store.put("a", b"")
    assert await store.get("a") == b""
    assert await store.get("b") == b"\x00\xff"
    assert await store.get("A") is None


async def test_put_if_absent_leaves_what_is_there(store: Store) -> None:
    assert await store.put_if_absent("a", b"1")
    assert not await store.put_if_absent("a", b"2")
    assert await store.get("a") == b"1"


async def test_compare_and_set_changes_only_what_is_as_expected(store: Store) -> None:
    assert not await store.compare_and_set("a", b"1", b"2")
    assert await store.get("a") is None
    assert await store.compare_and_set("a", None, b"1")
    assert not await store.compare_and_set("a", None, b"2")
    assert not await store.compare_and_set("a", b"0", b"2")
    assert await store.compare_and_set("a", b"1", b"2")
    assert await store.get("a") == b"2"
    assert not await store.compare_and_set("a", b"1", None)
    assert await store.compare_and_set("a", b"2", None)
    assert await store.get("a") is None
    assert await store.compare_and_set("a", None, None)


async def test_delete_says_whether_something_was_there(store: Store) -> None:
    await store.put("a", b"1")
    assert await store.delete("a")
    assert not await store.delete("a")
    assert await store.get("a") is None


async def test_a_key_past_its_ttl_is_absent_everywhere(store_kit: StoreKit) -> None:
    store = store_kit.open()
    await store.put("gone", b"1", ttl_s=0.5)
    await store.put_if_absent("gone too", b"1", ttl_s=0.5)
    await store.compare_and_set("gone three", None, b"1", ttl_s=0.5)
    await store.put("stays", b"1", ttl_s=3_600)
    await store.put("stays for ever", b"1")
    await store_kit.advance(0.6)
    assert await store.get("gone") is None
    assert await store.scan("") == [("stays", b"1"), ("stays for ever", b"1")]
    assert not await store.delete("gone")
    assert not await store.compare_and_set("gone too", b"1", b"2")
    assert await store.put_if_absent("gone too", b"2")
    assert await store.compare_and_set("gone three", None, b"3")


async def test_putting_again_sets_the_ttl_anew_or_takes_it_away(store_kit: StoreKit) -> None:
    store = store_kit.open()
    for key in ("a", "b"):
        await store.put(key, b"1", ttl_s=0.5)
    await store.put("a", b"2")
    await store.put("b", b"2", ttl_s=3_600)
    await store_kit.advance(0.6)
    assert await store.scan("") == [("a", b"2"), ("b", b"2")]


async def test_scan_takes_the_prefix_literally_and_keeps_the_order(store: Store) -> None:
    keys = [
        "a",
        "a%",
        "a%b",
        "a*",
        "a:1",
        "a:10",
        "a:2",
        "aa",
        "a_x",
        "a\U0010ffff",
        "a\U0010ffffz",
        "b",
        "é",
        "éa",
        "[a]",
    ]
    for key in keys:
        await store.put(key, key.encode())
    for prefix in ("", "a", "a:", "a:1", "a%", "a_", "a*", "a\U0010ffff", "é", "[a", "zzz"):
        expected = [(key, key.encode()) for key in sorted(keys) if key.startswith(prefix)]
        assert await store.scan(prefix) == expected
    assert await store.scan("a", limit=2) == [("a", b"a"), ("a%", b"a%")]


async def test_of_many_at_once_exactly_one_wins(store_kit: StoreKit) -> None:
    stores = [store_kit.open() for _ in range(3)]
    for round_number in range(10):
        key = f"race {round_number}"
        calls = [store.put_if_absent(key, str(at).encode()) for at, store in enumerate(stores * 4)]
        assert sum(await asyncio.gather(*calls)) == 1


async def test_nothing_is_lost_when_many_count_together(store_kit: StoreKit) -> None:
    stores = [store_kit.open() for _ in range(3)]

    async def count(store: Store) -> None:
        for _ in range(20):
            while True:
                old = await store.get("n")
                if await store.compare_and_set("n", old, str(int(old or b"0") + 1).encode()):
                    break

    await asyncio.gather(*(count(store) for store in stores))
    assert await stores[0].get("n") == b"60"


async def test_what_was_put_is_there_after_a_restart(store_kit: StoreKit) -> None:
    first = store_kit.open()
    await first.put("a", b"1")
    await first.close()
    assert await store_kit.open().get("a") == b"1"


async def test_what_cannot_be_kept_is_refused(store: Store) -> None:
    for call in (
        store.put("", b"1"),
        store.put("k" * 2_000, b"1"),
        store.put("\ud800", b"1"),
        store.put("a", b"x" * (1024 * 1024 + 1)),
        store.put("a", b"1", ttl_s=0),
        store.put("a", b"1", ttl_s=-1),
        store.put("a", b"1", ttl_s=float("nan")),
        store.put("a", b"1", ttl_s=float("inf")),
    ):
        with pytest.raises(BadInput):
            await call
    assert await store.scan("") == []
