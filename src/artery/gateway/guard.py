"""What stands before every HTTP request: Host and Origin, sizes and times, and an end to every error."""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from artery.gateway import metrics
from artery.gateway.answers import new_request_id, problem
from artery.gateway.door import Door
from artery.gateway.limits import HttpLimits
from artery.telemetry import logger

_READS = ("GET", "HEAD", "OPTIONS")
_PROBES = ("/healthz", "/readyz")
"""Whoever watches over the process asks it by its address, whatever that is; they say no more than yes or no."""
_CROSS = {
    b"access-control-expose-headers": "Artery-Next, Retry-After, X-Request-Id",
    b"cross-origin-resource-policy": "cross-origin",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
_log = logger("gateway")


class Guard:
    """The outermost layer: nothing passes it as an exception, and nothing in front of it is trusted."""

    def __init__(self, app: ASGIApp, door: Door, limits: HttpLimits) -> None:
        self._app = app
        self._door = door
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = _Call(scope, receive, send, self._limits)
        started = time.perf_counter()
        refused = self._refusal(call)
        if refused is not None:
            await call.refuse(*refused)
        elif call.scope["method"] == "OPTIONS" and call.header(b"access-control-request-method"):
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, call.send)
        else:
            await self._serve(call)
        route = _route(scope)
        metrics.HTTP_REQUESTS.labels(route, str(call.status)).inc()
        metrics.HTTP_SECONDS.labels(route).observe(time.perf_counter() - started)

    def _refusal(self, call: "_Call") -> tuple[int, str] | None:
        host = call.header(b"host")
        if self._door.host_allowed(host):
            call.host = host
        elif call.scope["path"] in _PROBES and call.scope["method"] in _READS:
            return None
        else:
            return 403, "this gateway does not answer to that Host; ART_GATEWAY_HOSTS names further ones"
        origin = call.header(b"origin")
        allowed = self._door.origin_allowed(origin or None, host)
        call.origin = origin if allowed else ""
        preflight = call.scope["method"] == "OPTIONS" and bool(call.header(b"access-control-request-method"))
        changes = call.scope["method"] not in _READS
        if (changes or preflight) and not allowed:
            return 403, "pages of that Origin may not do this; ART_GATEWAY_ORIGINS names further ones"
        if changes and not origin and call.header(b"sec-fetch-site") == "cross-site":
            return 403, "pages of other sites may not do this"
        length = call.header(b"content-length")
        if length.isdigit() and int(length) > self._limits.body_bytes:
            return 413, f"a request may have {self._limits.body_bytes} bytes"
        return None

    async def _serve(self, call: "_Call") -> None:
        try:
            async with asyncio.timeout(self._limits.request_s):
                await self._app(call.scope, call.receive, call.send)
        except TimeoutError:
            await call.refuse(503, "this took too long; ask for less")
        except Exception as error:
            words = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
            _log.error("a request failed", path=call.scope.get("path", ""), request_id=call.id, error=words)
            await call.refuse(500, "")


class _Call:
    """One request: its id, what has been read of it, whether it was answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: HttpLimits) -> None:
        self.id = new_request_id()
        self.scope = scope
        self.scope.setdefault("state", {})["request_id"] = self.id
        self.status = 0
        self.origin = ""
        """The page's Origin, if pages of it may ask and read the answer."""
        self.host = ""
        """The name that it asked for, if the gateway answers to it."""
        self._receive = receive
        self._send = send
        self._left_bytes = limits.body_bytes

    def header(self, name: bytes) -> str:
        values = [value for key, value in self.scope["headers"] if key == name]
        return values[0].decode("latin-1") if len(values) == 1 else ""

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left_bytes -= len(message.get("body", b""))
            if self._left_bytes < 0:
                raise HTTPException(413)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._dress(message)
        await self._send(message)

    async def refuse(self, status: int, words: str) -> None:
        if self.status == 0:
            await problem(status, self.id, message=words)(self.scope, self._receive, self.send)

    def _dress(self, message: MutableMapping[str, Any]) -> None:
        """Headers of every answer; a page may run only what comes from here and talk only to here."""
        usual = {
            b"x-request-id": self.id,
            b"x-content-type-options": "nosniff",
            b"referrer-policy": "no-referrer",
            b"cross-origin-resource-policy": "same-origin",
            b"cross-origin-opener-policy": "same-origin",
            b"x-frame-options": "DENY",
            b"cache-control": "no-store",
            b"content-security-policy": _policy(self.host),
        }
        if self.origin:
            usual |= {b"access-control-allow-origin": self.origin, b"vary": "Origin", **_CROSS}
        headers = list(message.get("headers", []))
        present = {name.lower() for name, _ in headers}
        headers += [(name, text.encode("latin-1")) for name, text in usual.items() if name not in present]
        message["headers"] = headers


def _policy(host: str) -> str:
    own = f"connect-src 'self' ws://{host} wss://{host}" if host else "connect-src 'self'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"font-src 'self'; manifest-src 'self'; {own}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _route(scope: Scope) -> str:
    """The route's own path, never the client's: labels must not grow with what clients make up."""
    return str(getattr(scope.get("route"), "path", "other"))
