"""Whatever bytes arrive on the HTTP side: an answer of the right kind or a closed connection, and nothing is left."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import msgspec
import pytest
from prometheus_client import REGISTRY

from artery.gateway import keys
from artery.gateway.routes import make_table
from artery.gateway.table import Route
from tests.faults.trial import LONG, seed
from tests.gateway.made import candle
from tests.gateway.running import Running, started, until

SEED = seed(20_261)
INPUTS = 100_000 if LONG else 3_000
AT_ONCE = 32
PATIENCE_S = 0.05
ANSWERS = {100, 101, 200, 201, 204, 206, 304, 400, 401, 403, 404, 405, 408, 413, 416, 429, 431, 503}
ANY = {"port": 0, "requests_per_s": 0.0, "strangers_per_s": 0.0}
DEEP = {"/v1/history", "/v1/indicators/{provider}/{market}/{interval}", "/udf/history", "/v1/gaps"}
ODD = [
    "", "0", "-1", "1e9", "9" * 40, "null", "NaN", "true", "%", "%zz", "%ff%fe", "%00", "\x00", "é", "＋", "٣", "'",
    '"', "<script>", "../../etc/passwd", "a" * 5_000, "[]", "{}", "SIM:BTC", "sim", "BTC", "1m", "1w", "s1", "e",
    "arrow", "SELECT 1", "{id}", "\r\n", "%0d%0aX: y", "2147483648", "18446744073709551616", "-0", "0x10", "1_000",
    " 1", "１",
]  # fmt: skip
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW", "get", "CONNECT"]
HEADERS = [
    "Origin: http://evil.example", "Origin: null", "Host: evil.example", "Content-Length: 5", "Content-Length: -1",
    "Content-Length: 99999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Expect: 100-continue",
    "Upgrade: websocket\r\nConnection: upgrade", "Upgrade: h2c\r\nConnection: upgrade", "Cookie: artery_session_sim=x",
    "Cookie: " + "a=b; " * 500, "Authorization: Bearer", "Authorization: Basic eDp5", "Range: bytes=0-5,9-1",
    "If-Modified-Since: yesterday", "If-None-Match: *", "Content-Type: text/xml", "X: " + "y" * 9_000, "Bad Header",
    "Sec-Fetch-Site: cross-site", "Access-Control-Request-Method: PUT", "Accept-Encoding: br;q=x", ": empty",
]  # fmt: skip


class Fuzzer:
    """Requests that are almost right, from one seed."""

    def __init__(self, seed: int, routes: tuple[Route, ...], key: str) -> None:
        self._dice = random.Random(seed)
        self._routes = routes
        self._key = key
        self._odd = 0.0

    def inputs(self, count: int) -> Iterator[tuple[bytes, bool]]:
        """Bytes to send, and whether they are a whole request, which has to be answered."""
        for _ in range(count):
            request, whole = self._request()
            if self._dice.random() < 0.25:
                request, whole = self._broken(request), False
            yield request, whole

    def _request(self) -> tuple[bytes, bool]:
        dice = self._dice
        route = dice.choice(self._routes)
        self._odd = dice.choice((0.0, 0.1, 0.4))  # some are right but for one value: those get furthest
        method = route.method if dice.random() < 0.8 else dice.choice(METHODS)
        body = self._body(route) if method in ("POST", "PATCH", "PUT") else b""
        lines = [f"{method} {self._target(route)} HTTP/1.1", "Host: localhost", "Connection: close"]
        if dice.random() < 0.8:
            lines.append(f"Authorization: Bearer {self._key}")
        extra = [dice.choice(HEADERS) for _ in range(dice.choice((0, 0, 0, 1, 2)))]
        if body or dice.random() < 0.1:
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, *extra, "", ""]).encode("utf-8", "surrogateescape")
        return head + body, not extra and method in (route.method, "HEAD", "PUT")

    def _target(self, route: Route) -> str:
        usual = {"id": "0a1b2c3d4e5f"} | {param.name: str(param.example) for param in route.params}
        path = re.sub(r"\{(\w+)\}", lambda name: quote(self._value(usual[name[1]]), safe="%"), route.path)
        if self._dice.random() < 0.05:
            path = "/" + quote(self._dice.choice(ODD), safe="%/.")
        pairs = [(name, text) for name, text in usual.items() if name != "id" and f"{{{name}}}" not in route.path]
        asked = [(name, self._value(usual)) for name, usual in pairs if self._dice.random() < 0.7]
        if self._dice.random() < 0.1:
            asked.append((self._dice.choice(("x", "limit", "", "token")), self._value("1")))
        query = "&".join(f"{name}={quote(value, safe='%')}" for name, value in asked)
        return f"{path}?{query}" if query else path

    def _value(self, usual: str) -> str:
        return usual if self._dice.random() >= self._odd else self._dice.choice(ODD)

    def _body(self, route: Route) -> bytes:
        dice = self._dice
        usual = {"user": "ann", "scopes": ["read"], "expires_in_s": 5, "start": "x", "key": "y"}
        kind = dice.random()
        if kind < 0.1 and route.body is not None:
            return msgspec.json.encode(route.body.example)
        if kind < 0.5:
            chosen = {name: usual[name] for name in usual if dice.random() < 0.5}
            return json.dumps({**chosen, dice.choice(("user", "z")): dice.choice((None, 1, [], "", "é" * 50))}).encode()
        if kind < 0.6:
            return b"[" * dice.choice((10, 60_000))
        if kind < 0.65:
            return b"x" * 70_000
        return bytes(dice.randrange(256) for _ in range(dice.randrange(200)))

    def _broken(self, request: bytes) -> bytes:
        """The same with some bytes changed, cut off or said twice."""
        dice, data = self._dice, bytearray(request)
        for _ in range(dice.choice((1, 3, 20))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        kind = dice.random()
        if kind < 0.3:
            del data[dice.randrange(len(data)) :]
        elif kind < 0.5:
            data += request
        return bytes(data)


async def answer(port: int, data: bytes, *, whole: bool) -> bytes:
    """What comes back: for a whole request until the server closes, else whatever comes in a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(60.0 if whole else PATIENCE_S):
            return await reader.read()
    except TimeoutError:
        assert not whole, data[:300]
        return b""
    except ConnectionError:
        return b""
    finally:
        writer.close()


def check(data: bytes, said: bytes, *, whole: bool) -> None:
    if not said:
        assert not whole, data[:300]
        return
    assert said.startswith(b"HTTP/1.1 "), said[:100]
    status = int(said[9:12])
    assert status in ANSWERS, (status, data[:300])
    assert status != 503 or not whole or b"/readyz" in data, data[:300]
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"Traceback" not in said
    if whole and status >= 400 and not data.startswith(b"HEAD") and b"text/html" not in head:
        found = json.loads(body)
        assert found.get("error", {}).get("requestId") or found == {"ready": False} or "feeds" in found, (found, data)


def failures() -> float:
    """How many requests were answered with a 500, whether or not their clients waited for it."""
    return sum(
        sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "artery_gateway_http_requests_total" and sample.labels["status"] == "500"
    )


def answered() -> set[str]:
    """The routes that have answered a request as it is meant."""
    return {
        sample.labels["route"]
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "artery_gateway_http_requests_total" and sample.labels["status"] == "200"
    }


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def send_all(running: Running, seed: int, count: int) -> None:
    _, key = await keys.make_key(running.store, "fuzz", keys.ALL_SCOPES)
    parts = SimpleNamespace(catalog=running.gateway._catalog)  # all that the routes need before they are asked
    fuzzer = Fuzzer(seed, make_table(cast(Any, parts)).routes, key)
    room = asyncio.Semaphore(AT_ONCE)

    async def one(data: bytes, whole: bool) -> None:
        async with room:
            check(data, await answer(running.port, data, whole=whole), whole=whole)

    inputs = fuzzer.inputs(count)
    while batch := [pair for _, pair in zip(range(500), inputs, strict=False)]:
        async with asyncio.TaskGroup() as group:
            for data, whole in batch:
                group.create_task(one(data, whole))


@pytest.mark.timeout(3_600 if LONG else 300)
async def test_whatever_arrives_is_answered_or_refused_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path, gateway=ANY) as running:
        await running.candles(*[candle(minute, seq=minute + 1) for minute in range(300)])
        await send_all(running, SEED - 1, 300)  # what is opened once and kept is open now
        before, failed = descriptors(), failures()
        await send_all(running, SEED, INPUTS)
        await until(lambda: descriptors() <= before)
        assert failures() == failed, f"seed {SEED}"
        assert answered() >= DEEP, "requests reach what they are to fuzz"
        assert (running.gateway.sessions.unverified, running.gateway.sessions.live) == (0, 0)
        async with running.http() as http:
            assert (await http.get("/v1/markets")).status_code == 200
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said, f"seed {SEED}"
    assert "a request failed" not in said
