"""Whoever may look after the log sees what was given up, and why, and can have it tried again."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artery.gateway import keys
from tests.gateway.made import trade
from tests.gateway.running import Running, started
from tests.servers import RedisServer


@pytest.fixture(params=["sqlite", "redis"])
async def buried(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> AsyncIterator[Running]:
    """A gateway whose log has three dead letters."""
    sections: dict[str, Any] = {"bus": {"url": redis.new_url()}} if request.param == "redis" else {}
    async with started(tmp_path, **sections) as running:
        await running.bus.ensure_group("trade", "cg_storage_trade")
        await running.append("trade", *(trade(n) for n in (1, 2, 3)))
        for entry in await running.bus.read_new("trade", "cg_storage_trade", "me", 3):
            await running.bus.dead_letter("trade", "cg_storage_trade", entry, f"cannot store {entry.fields['tid']}")
        yield running


async def test_letters_are_listed_newest_first_with_their_cause_page_by_page(buried: Running) -> None:
    async with buried.http() as http:
        page = (await http.get("/v1/dead?limit=2")).json()
        assert [letter["error"] for letter in page["letters"]] == ["cannot store 1-3", "cannot store 1-2"]
        first = page["letters"][0]
        assert (first["stream"], first["group"], first["requeued"]) == ("trade", "cg_storage_trade", False)
        assert first["fields"]["px"] == "100"
        rest = (await http.get(f"/v1/dead?limit=2&before={page['next']}")).json()
        assert [letter["error"] for letter in rest["letters"]] == ["cannot store 1-1"]
        assert rest["next"] is None


async def test_a_requeued_letter_is_in_its_stream_again_and_is_requeued_once(buried: Running) -> None:
    async with buried.http() as http:
        letter = (await http.get("/v1/dead?limit=1")).json()["letters"][0]
        done = await http.post(f"/v1/dead/{letter['id']}/requeue")
        assert done.status_code == 200
        assert done.json() == {"id": letter["id"], "position": await buried.bus.head("trade")}
        again = await http.post(f"/v1/dead/{letter['id']}/requeue")
        assert (again.status_code, again.json()["error"]["code"]) == (400, "bad_request")
        assert len((await http.get("/v1/dead")).json()["letters"]) == 2
        assert len((await http.get("/v1/dead?all=true")).json()["letters"]) == 3


async def test_a_letter_that_is_not_there_is_not_found(buried: Running) -> None:
    async with buried.http() as http:
        for wrong in ("999999", "999999999999999999", "1-1", "0"):
            assert (await http.post(f"/v1/dead/{wrong}/requeue")).status_code in (400, 404), wrong
            assert (await http.get(f"/v1/dead?before={wrong}")).status_code in (200, 400), wrong
        for wrong in ("x", "-1", "1" * 30, "1%0a"):
            assert (await http.post(f"/v1/dead/{wrong}/requeue")).status_code == 400, wrong


async def test_only_an_administrator_sees_them(buried: Running) -> None:
    _, text = await keys.make_key(buried.store, "ann", ["read", "stream"])
    async with buried.http(buried.bearer(text)) as ann:
        assert (await ann.get("/v1/dead")).status_code == 403
        assert (await ann.post("/v1/dead/1/requeue")).status_code == 403
