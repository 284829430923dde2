"""The first request of a WebSocket: whom to let in, what to answer. Pure."""

from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from artery.gateway import frames, metrics
from artery.gateway.access import Credential
from artery.gateway.door import Door, credential

PATH = "/v1/stream"


def refusal(request: Request, door: Door, *, full: bool) -> Response | None:
    """The answer to a request that must not become a connection; `full` if too many wait to be verified."""
    hosts = request.headers.get_all("Host")
    origins = request.headers.get_all("Origin")
    if request.path.partition("?")[0] != PATH:
        return _refuse(404, "not_found", f"WebSocket clients connect to {PATH}")
    if len(hosts) != 1 or not door.host_allowed(hosts[0]):
        return _refuse(403, "forbidden", "this gateway does not answer to that Host")
    if len(origins) > 1 or not door.origin_allowed(origins[0] if origins else None, hosts[0]):
        return _refuse(403, "forbidden", "pages of that Origin may not connect")
    if full:
        return _refuse(503, "rate_limited", "too many connections wait to be verified; try again")
    return None


def shown(request: Request, cookie_name: str) -> Credential:
    """What the client shows: a key in one of three places, or the page's cookie."""
    headers = request.headers
    offered = [part.strip() for line in headers.get_all("Sec-WebSocket-Protocol") for part in line.split(",")]
    return credential(
        authorization=next(iter(headers.get_all("Authorization")), ""),
        protocols=offered,
        query=request.path.partition("?")[2],
        cookies="; ".join(headers.get_all("Cookie")),
        cookie_name=cookie_name,
    )


def _refuse(status: int, code: str, message: str) -> Response:
    metrics.REFUSED.labels(code).inc()
    body = frames.encode({"error": {"code": code, "message": message, "requestId": ""}})
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return Response(status, HTTPStatus(status).phrase, headers, body)
