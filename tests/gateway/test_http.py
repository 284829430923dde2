"""HTTP answers what it promises to who may ask, and says no in one form to everyone else."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from artery.errors import CannotStart
from artery.gateway import keys
from artery.gateway.service import run_gateway
from artery.model import symbols
from artery.model.symbols import Symbol
from tests.gateway.made import BTC, T0, mark, trade
from tests.gateway.running import Running, started, until

OPEN = ["/healthz", "/openapi.json", "/"]
CLOSED = ["/v1/providers", "/v1/markets", "/v1/history?provider=sim&market=BTC", "/v1/gaps", "/metrics", "/v1/session"]


def error(answer: httpx.Response) -> dict[str, str]:
    body: dict[str, dict[str, str]] = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "requestId"}
    assert body["error"]["requestId"] == answer.headers["x-request-id"]
    return body["error"]


async def test_some_things_are_open_and_the_rest_needs_a_key(running: Running) -> None:
    wrong = running.bearer("art_live_000000000000." + "a" * 43)
    async with running.http({}) as nobody, running.http(wrong) as stranger, running.http() as friend:
        for path in OPEN:
            assert (await nobody.get(path)).status_code == 200, path
        for path in CLOSED:
            answer = await nobody.get(path)
            assert (answer.status_code, error(answer)["code"]) == (401, "unauthenticated"), path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert (await stranger.get(path)).status_code == 401, path
            assert (await friend.get(path)).status_code == 200, path


async def test_a_key_needs_the_scope_read(running: Running) -> None:
    _, text = await keys.make_key(running.store, "ann", ["stream"])
    async with running.http(running.bearer(text)) as http:
        answer = await http.get("/v1/markets")
        assert (answer.status_code, error(answer)["code"]) == (403, "forbidden_scope")


async def test_the_page_trades_its_start_code_for_a_cookie_and_gives_it_back(running: Running) -> None:
    code = await keys.make_start_code(running.store)
    async with running.http({}) as http:
        answer = await http.post("/v1/session", json={"start": code}, headers={"Origin": running.url})
        assert (answer.status_code, answer.json()["user"]) == (200, "local")
        cookie = answer.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "max-age=2592000", "path=/"))
        assert (await http.get("/v1/markets")).status_code == 200
        assert (await http.get("/v1/session")).json()["user"] == "local"
        assert (await http.delete("/v1/session")).status_code == 204
        assert (await http.get("/v1/markets")).status_code == 401
        assert (await http.post("/v1/session", json={"start": code})).status_code == 401


async def test_a_key_opens_the_page_too(running: Running) -> None:
    async with running.http({}) as http:
        assert (await http.post("/v1/session", json={"key": running.key})).status_code == 200
        assert (await http.get("/v1/markets")).status_code == 200


PROOFS = [
    (b"", 400),
    (b"not json", 400),
    (b"[]", 400),
    (b"{}", 400),
    (b'{"start":5}', 400),
    (b'{"start":"a","key":"b"}', 400),
    (b"[" * 50_000, 400),
    (b'{"key":"wrong"}', 401),
    (b'{"start":"wrong"}', 401),
    (b"x" * 70_000, 413),
    (b"x" * 10_000_000, 413),
]


async def test_a_bad_proof_is_refused(running: Running) -> None:
    for body, status in PROOFS:
        async with running.http({}) as http:
            answer = await http.post("/v1/session", content=body)
            assert answer.status_code == status, body[:40]
            error(answer)


async def test_a_body_of_unknown_length_is_cut_off_too(running: Running) -> None:
    async def drops() -> Any:
        for _ in range(100):
            yield b"x" * 10_000

    async with running.http({}) as http:
        answer = await http.post("/v1/session", content=drops())
        assert (answer.status_code, error(answer)["code"]) == (413, "too_large")


WRONG: list[tuple[str, str, dict[str, str], int, str]] = [
    ("GET", "/v1/nothing", {}, 404, "not_found"),
    ("GET", "/../../etc/passwd", {}, 404, "not_found"),
    ("GET", "/%2e%2e/%2e%2e/etc/passwd", {}, 404, "not_found"),
    ("POST", "/v1/markets", {}, 405, "method_not_allowed"),
    ("POST", "/", {}, 405, "method_not_allowed"),
    ("GET", "/v1/markets", {"Host": "evil.example"}, 403, "forbidden"),
    ("GET", "/", {"Host": "evil.example"}, 403, "forbidden"),
    ("POST", "/v1/session", {"Origin": "http://evil.example"}, 403, "forbidden"),
    ("POST", "/v1/session", {"Sec-Fetch-Site": "cross-site"}, 403, "forbidden"),
    ("DELETE", "/v1/session", {"Origin": "null"}, 403, "forbidden"),
    ("GET", "/v1/history", {}, 400, "bad_request"),
    ("GET", "/v1/history?provider=sim&market=NOPE", {}, 404, "unknown_channel"),
    ("GET", "/v1/history?provider=SIM!&market=BTC", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&market=BTC", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=nonsense", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&interval=1w", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&limit=0", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&limit=5001", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&limit=x", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&start=-1", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&end=1e9", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&format=xml", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&type=books", {}, 400, "bad_request"),
    ("GET", "/v1/history?ticker=SIM:BTC&cursor=q1", {}, 400, "bad_request"),
    ("GET", "/v1/gaps?limit=many", {}, 400, "bad_request"),
]


async def test_what_is_wrong_is_said_in_one_form(running: Running) -> None:
    async with running.http() as http:
        for method, path, headers, status, code in WRONG:
            answer = await http.request(method, path, headers=headers)
            assert (answer.status_code, error(answer)["code"]) == (status, code), (method, path, headers)
            assert "Traceback" not in answer.text


async def raw(running: Running, data: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(data)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer


async def test_what_is_not_http_is_refused_and_logged_nowhere(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await raw(running, b"\x16\x03\x01 nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
    many = b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1_000) for n in range(200))
    assert (await raw(running, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + many)).startswith(b"HTTP/1.1 431")
    for head in (b"GET /healthz?" + b"y" * 66_000 + b" HTTP/1.1\r\nHost: localhost\r\n", many[:66_000]):
        whole = head if head.startswith(b"GET") else b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n"
        assert (await raw(running, whole + b"\r\n")).startswith(b"HTTP/1.1 431"), "more than 64 KiB, and complete"
    assert (await raw(running, b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 66_000)).startswith(b"HTTP/1.1 431")
    below = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + many[: 1_000 * 60]
    assert (await raw(running, below[: below.rindex(b"\r\n")] + b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    upgrade = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    assert (await raw(running, upgrade)).startswith(b"HTTP/1.1 400")
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out


async def test_an_error_of_ours_is_a_plain_500_and_one_line_in_the_log(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    await running.bus.close()
    async with running.http() as http:
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        answer = await http.get("/v1/history?ticker=SIM:BTC&type=trades")
        assert answer.status_code == 503
        assert error(answer)["code"] == "unavailable"
    assert "Traceback" not in "".join(capsys.readouterr())


async def test_markets_and_providers_are_known_from_the_start_and_learn_more(running: Running) -> None:
    sol = Symbol("sim", "SOL", "SOL", "USD", Decimal("0.01"), Decimal("0.1"))
    await running.store.put(symbols.key("sim", "SOL"), symbols.write(sol))
    await running.store.put("artery:feed:sim", msgspec.json.encode({"state": "live"}))
    await running.publish(trade(1, px=123))
    await until(lambda: running.gateway.hub.newest(BTC, "TRADE"))
    async with running.http() as http:
        markets = (await http.get("/v1/markets")).json()["markets"]
        assert [market["coin"] for market in markets][:2] == ["BTC", "ETH"]
        assert markets[0] | {"base": "", "quote": "", "tick_size": "", "size_step": "", "status": ""} == {
            "provider": "sim", "coin": "BTC", "channel": BTC, "ticker": "SIM:BTC", "base": "", "quote": "",
            "tick_size": "", "size_step": "", "status": "", "version": 0, "valid_from": 0, "followed": False,
            "simulated": True, "last": "123",
        }  # fmt: skip

        async def learnt() -> list[dict[str, Any]]:
            found = (await http.get("/v1/markets")).json()["markets"]
            return [market for market in found if market["coin"] == "SOL"]

        assert (await until(learnt))[0]["tick_size"] == "0.01"
        assert (await http.get("/v1/providers")).json()["providers"] == [
            {
                "provider": "sim",
                "exchange": "SIM",
                "simulated": True,
                "state": "live",
                "capabilities": {"trades": True, "books": True, "candles": ["1m", "5m", "15m", "1h", "4h", "1d"]},
            }
        ]


async def test_gaps_are_the_marks_of_the_feeds(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        await running.append("feed", mark(1, T0, T0), mark(2, T0, T0 + 5))
    async with started(tmp_path) as running, running.http() as http:
        await running.append("feed", mark(3, T0 + 7, T0 + 9, coin="BTC"))

        async def both() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await http.get("/v1/gaps")).json()["gaps"]
            return found if len(found) == 2 else []

        rows = await until(both)
        assert [(row["epoch"], row["market"], row["to_ms"]) for row in rows] == [(3, "BTC", T0 + 9), (2, "", T0 + 5)]
        assert (await http.get("/v1/gaps?provider=kalshi")).json() == {"gaps": []}


async def test_readiness_is_a_word_for_strangers_and_a_report_for_friends(running: Running) -> None:
    async with running.http({}) as stranger, running.http() as friend:
        answer = await stranger.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"ready": False})
        await running.bus.ensure_group("trade", "cg_storage_trade")
        await running.append("trade", trade(1), trade(2))
        now_ms = keys.wall_ms()
        await running.store.put(
            "artery:feed:sim",
            json.dumps({"state": "live", "updated_ms": now_ms, "markets": {"BTC": {"trade_ms": now_ms}}}).encode(),
        )
        await running.store.put("artery:pipeline", json.dumps({"state": "starting", "updated_ms": now_ms}).encode())
        assert (await stranger.get("/readyz")).json() == {"ready": True}
        answer = await friend.get("/readyz")
        report = answer.json()
        assert (answer.status_code, report["ready"], report["simulated"]) == (200, True, True)
        assert report["feeds"][0]["age_ms"] < 30_000
        assert (report["pipeline"]["ok"], report["pipeline"]["state"]) == (False, "starting")
        assert [(row["group"], row["lag"]) for row in report["bus"]] == [("cg_storage_trade", 2)]


async def test_answers_carry_what_keeps_a_browser_safe(running: Running) -> None:
    async with running.http({}) as http:
        headers = (await http.get("/")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert f"connect-src 'self' ws://127.0.0.1:{running.port}" in policy
    assert "frame-ancestors 'none'" in policy
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in headers


async def test_the_page_is_served_from_its_folder_or_says_how_to_build_it(tmp_path: Path) -> None:
    built = tmp_path / "dist"
    async with started(tmp_path, static=built) as running, running.http({}) as http:
        assert "Node 20" in (await http.get("/")).text
        (built / "assets").mkdir(parents=True)
        (built / "index.html").write_text("<!doctype html>the page")
        (built / "assets" / "app-1234.js").write_text("go()")
        page, script = await http.get("/"), await http.get("/assets/app-1234.js")
        assert (page.text, page.headers["cache-control"]) == ("<!doctype html>the page", "no-cache")
        assert "immutable" in script.headers["cache-control"]
        assert script.headers["content-type"].startswith("text/javascript")
        assert (await http.get("/assets/none.js")).status_code == 404


async def test_metrics_count_requests_by_route_and_never_by_what_clients_make_up(running: Running) -> None:
    async with running.http() as http:
        await http.get("/made-up-by-a-client")
        await http.get("/v1/markets")
        numbers = (await http.get("/metrics")).text
    assert 'artery_gateway_http_requests_total{route="/v1/markets",status="200"}' in numbers
    assert "made-up" not in numbers
    assert "artery_gateway_sessions" in numbers


async def test_the_interface_describes_itself(running: Running) -> None:
    async with running.http({}) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
    assert {"/v1/providers", "/v1/markets", "/v1/history", "/v1/session", "/v1/gaps", "/readyz"} <= set(paths)


async def test_a_taken_port_is_said_in_one_sentence_and_nothing_is_started(running: Running, tmp_path: Path) -> None:
    settings = running.settings.with_(gateway={"port": running.port}, data={"dir": str(tmp_path / "other")})
    with pytest.raises(CannotStart, match=f"port {running.port} is taken.*ART_GATEWAY_PORT"):
        await run_gateway(
            settings, running.bus, running.pubsub, running.store, running.lake, static=None, ready=lambda _: None
        )
    assert not (tmp_path / "other").exists()


async def test_an_address_that_is_none_is_said_in_one_sentence(running: Running) -> None:
    settings = running.settings.with_(gateway={"host": "no such host"})
    with pytest.raises(CannotStart, match="ART_GATEWAY_HOST"):
        await run_gateway(
            settings, running.bus, running.pubsub, running.store, running.lake, static=None, ready=lambda _: None
        )


async def test_who_watches_over_the_process_may_ask_by_any_address_and_nobody_else(running: Running) -> None:
    async with running.http({"Host": "10.1.2.3:8080"}) as probe:
        answer = await probe.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"alive": True})
        assert "10.1.2.3" not in answer.headers["content-security-policy"]
        assert (await probe.get("/readyz")).status_code in (200, 503)
        page = await probe.get("/healthz", headers={"Origin": "http://10.1.2.3:8080"})
        assert "access-control-allow-origin" not in page.headers
        assert (await probe.post("/healthz")).status_code == 403
        assert (await probe.get("/v1/markets")).status_code == 403
