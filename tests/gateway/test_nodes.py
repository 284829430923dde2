"""Several gateways on one store: what is said to one holds at all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from artery.gateway import keys
from tests.gateway.made import BTC
from tests.gateway.running import WAIT_S, Running, started, subscribe, until
from tests.servers import RedisServer


@pytest.fixture(params=["sqlite", "redis"])
async def nodes(
    request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer
) -> AsyncIterator[tuple[Running, Running]]:
    """Two gateways, as two processes would have them: each with its own connections to what they share."""
    sections: dict[str, Any] = {}
    if request.param == "redis":
        url = redis.new_url()
        sections = {"store": {"url": url}, "bus": {"url": url}, "live": {"url": url}}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(started(tmp_path, **sections))
        second = await stack.enter_async_context(started(tmp_path, **sections))
        yield first, second


async def closed(socket: ClientConnection) -> int | None:
    async with asyncio.timeout(WAIT_S):
        await socket.wait_closed()
    return socket.close_code


async def test_a_revoked_key_is_cut_off_at_every_gateway(nodes: tuple[Running, Running]) -> None:
    first, second = nodes
    async with first.http() as admin:
        made = (await admin.post("/v1/keys", json={"user": "ann", "scopes": ["read", "stream"]})).json()
        bearer = first.bearer(made["key"])
        async with (
            first.connect(additional_headers=bearer) as here,
            second.connect(additional_headers=bearer) as there,
            second.connect() as other,
        ):
            for socket in (here, there, other):
                assert (await subscribe(socket, BTC))["type"] == "subscribed"
            assert (await admin.delete(f"/v1/keys/{made['id']}")).status_code == 200
            assert [await closed(here), await closed(there)] == [4501, 4501]
            assert second.gateway.hub.subscribers(BTC) == 1
            assert first.gateway.hub.subscribers(BTC) == 0
            assert (await subscribe(other, BTC))["type"] == "subscribed"
        for node in nodes:
            async with node.http(bearer) as ann:
                assert (await ann.get("/v1/markets")).status_code == 401
            async with node.connect(additional_headers=bearer) as again:
                assert await closed(again) == 4500


async def test_a_key_that_expires_is_cut_off_at_every_gateway(nodes: tuple[Running, Running]) -> None:
    first, second = nodes
    async with first.http() as admin:
        made = (await admin.post("/v1/keys", json={"user": "ann", "scopes": ["stream"]})).json()
        bearer = first.bearer(made["key"])
        async with (
            first.connect(additional_headers=bearer) as here,
            second.connect(additional_headers=bearer) as there,
        ):
            for socket in (here, there):
                assert (await subscribe(socket, BTC))["type"] == "subscribed"
            expired = await admin.patch(f"/v1/keys/{made['id']}", json={"expires_in_s": 0})
            assert expired.json()["expires_ms"] <= keys.wall_ms()
            assert [await closed(here), await closed(there)] == [4501, 4501]


async def test_a_key_ends_by_itself_when_its_time_has_come(nodes: tuple[Running, Running]) -> None:
    _, second = nodes
    _, text = await keys.make_key(second.store, "ann", ["stream"], expires_ms=keys.wall_ms() + 1_500)
    async with second.connect(additional_headers=second.bearer(text)) as socket:
        assert await closed(socket) in (4501, 4500)


async def test_the_page_is_at_home_at_every_gateway(nodes: tuple[Running, Running]) -> None:
    first, second = nodes
    code = await keys.make_start_code(first.store)
    async with first.http({}) as here, second.http({}) as there:
        assert (await here.post("/v1/session", json={"start": code})).status_code == 200
        assert (await there.post("/v1/session", json={"start": code})).status_code == 401
        (name, value), *_ = here.cookies.items()
        there.cookies.set(name, value)
        assert (await there.get("/v1/session")).json()["user"] == "local"
        cookie = {"Cookie": f"{name}={value}", "Origin": second.url}
        async with second.connect(additional_headers=cookie) as socket:
            assert (await subscribe(socket, BTC))["type"] == "subscribed"
            assert (await here.delete("/v1/session")).status_code == 204
            assert await closed(socket) == 4501

        async def refused() -> bool:
            return (await there.get("/v1/session")).status_code == 401

        await until(refused)


async def test_keys_made_at_one_gateway_are_listed_at_another(nodes: tuple[Running, Running]) -> None:
    first, second = nodes
    async with first.http() as here, second.http() as there:
        made = (await here.post("/v1/keys", json={"user": "ann", "scopes": ["read"], "expires_in_s": 60})).json()
        listed = {row["id"]: row for row in (await there.get("/v1/keys")).json()["keys"]}
        assert {**listed[made["id"]], "key": made["key"]} == made
        async with second.http(second.bearer(made["key"])) as ann:
            assert (await ann.get("/v1/markets")).status_code == 200
            assert (await ann.get("/v1/keys")).status_code == 403


async def test_a_key_revoked_while_it_is_verified_leaves_nothing_behind(
    nodes: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes
    key, text = await keys.make_key(first.store, "ann", ["stream"])
    asked, free, read = asyncio.Event(), asyncio.Event(), second.store.get

    async def slowly(name: str) -> bytes | None:
        found = await read(name)
        if name == f"artery:key:{key.id}":
            asked.set()  # the store has said yes, but the answer is still on its way
            await free.wait()
        return found

    monkeypatch.setattr(second.store, "get", slowly)
    seen = asyncio.Event()
    changed = second.gateway.sessions.access.changed

    async def noticing() -> bool:
        found = await changed()
        if found:
            seen.set()
        return found

    async with second.connect(additional_headers=second.bearer(text)) as socket:
        await socket.send(f'{{"type":"subscribe","id":"1","channels":["{BTC}"]}}')
        async with asyncio.timeout(WAIT_S):
            await asked.wait()
            monkeypatch.setattr(second.gateway.sessions.access, "changed", noticing)
            await keys.revoke(first.store, key.id)
            await seen.wait()
        assert second.gateway.sessions.unverified == 1
        free.set()
        assert await closed(socket) == 4500
    await until(lambda: second.gateway.sessions.everyone() == [])
    assert second.gateway.hub.subscribers(BTC) == 0
