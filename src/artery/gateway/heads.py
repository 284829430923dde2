"""HTTP connections with bounds on what comes before a request is complete, and nothing lost at an upgrade."""

import asyncio
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from artery.gateway.answers import new_request_id, problem
from artery.gateway.limits import HTTP


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, but a head has a size and a time, and bytes behind an upgrade reach the WebSocket."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _in_head = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            # The first bytes of a body may come with the head.
            self._head_bytes += len(data)
            if self._head_bytes > HTTP.head_bytes + HTTP.body_bytes:
                self._refuse(431, "the head of the request is too large")
                return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, "this is not HTTP")

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._head_timer is None:
            self._wait_for_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._stop_waiting()
        super().on_headers_complete()

    def _upgrade(self, rest: bytes) -> None:
        if not self._should_upgrade():
            self._refuse(400, "only WebSocket can be upgraded to")
            return
        self.handle_websocket_upgrade()
        if rest:
            cast(asyncio.Protocol, self.transport.get_protocol()).data_received(rest)

    def _refuse(self, status: int, words: str) -> None:
        """Answer what never became a request, and close."""
        response = problem(status, new_request_id(), code="bad_request", message=words)
        head = [f"HTTP/1.1 {status} Refused", "connection: close"]
        head += [f"{name.decode()}: {value.decode()}" for name, value in response.raw_headers]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + bytes(response.body))
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HTTP.head_s, self._too_slow)

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
