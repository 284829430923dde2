"""Pages of named Origins may ask and read; pages of others may not; the page's own cookie is for its own page."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from tests.gateway.running import Running, started

DESK = "https://desk.example"
PREFLIGHT = {"Origin": DESK, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Running]:
    async with started(tmp_path, gateway={"port": 0, "origins": (DESK,)}) as running:
        yield running


async def test_a_named_page_may_ask_and_read_the_answer(desk: Running) -> None:
    async with desk.http({}) as http:
        asked = await http.options("/v1/markets", headers=PREFLIGHT)
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == DESK
        assert "Authorization" in asked.headers["access-control-allow-headers"]
        assert "PATCH" in asked.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in asked.headers  # the cookie is not for other pages
        page = {"Origin": DESK, "Sec-Fetch-Site": "cross-site", **desk.bearer()}
        found = await http.get("/v1/markets", headers=page)
        assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, DESK)
        assert (found.headers["vary"], found.headers["cross-origin-resource-policy"]) == ("Origin", "cross-origin")
        assert "Artery-Next" in found.headers["access-control-expose-headers"]
        made = await http.post("/v1/keys", headers=page, json={"user": "ann", "scopes": ["read"]})
        assert made.status_code == 201
        refused = await http.get("/v1/markets", headers={"Origin": DESK})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, DESK)
    async with desk.connect(origin=DESK) as socket:
        await (await socket.ping())


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://desk.example.evil.example", "http://desk.example"]
)
async def test_any_other_page_may_not(desk: Running, origin: str) -> None:
    async with desk.http() as http:
        asked = await http.options("/v1/markets", headers={**PREFLIGHT, "Origin": origin})
        assert asked.status_code == 403
        assert "access-control-allow-origin" not in asked.headers
        found = await http.get("/v1/markets", headers={"Origin": origin})
        assert "access-control-allow-origin" not in found.headers
        assert found.headers["cross-origin-resource-policy"] == "same-origin"
        changed = await http.post("/v1/keys", headers={"Origin": origin}, json={"user": "ann", "scopes": ["read"]})
        assert changed.status_code == 403
    with pytest.raises(InvalidStatus):
        async with desk.connect(origin=origin):
            raise AssertionError("it was let in")


async def test_a_request_of_no_page_needs_no_origin(desk: Running) -> None:
    async with desk.http() as http:
        found = await http.get("/v1/markets")
        assert found.status_code == 200
        assert "access-control-allow-origin" not in found.headers
        assert (await http.options("/v1/markets")).status_code == 405
