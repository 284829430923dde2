"""HTTP connections with bounds on what comes before a request is complete, and nothing lost at an upgrade."""

import asyncio
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from artery.gateway.answers import new_request_id, problem
from artery.gateway.limits import HTTP

_AROUND = 4
"""Bytes of a header line beside its name and its value."""
_TOO_LARGE = "the head of the request is too large"


class _TooLarge(Exception):
    """Stops the parser."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, but a head has a size and a time, and bytes behind an upgrade reach the WebSocket."""

    _head_bytes = 0
    """The fields of a head, as far as they were read."""
    _open_bytes = 0
    """What has come of a head that is not complete, also of a field that has no end yet."""
    _head_timer: asyncio.TimerHandle | None = None
    _in_head = True
    _refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        if self._in_head:
            self._open_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self._refuse(431, _TOO_LARGE)
            else:
                self._refuse(400, "this is not HTTP")
        else:
            if self._in_head and self._open_bytes > HTTP.head_bytes:
                self._refuse(431, _TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._wait_for_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _AROUND)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._open_bytes = False, 0
        self._stop_waiting()
        super().on_headers_complete()

    def _count(self, more_bytes: int) -> None:
        self._head_bytes += more_bytes
        if self._head_bytes > HTTP.head_bytes:
            raise _TooLarge

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
        self._stop_waiting()
        if status == 431:
            # More of it is on its way, and a socket that is closed with bytes unread takes the answer back.
            self._refused = True
            self._head_timer = self.loop.call_later(HTTP.linger_s, self._too_slow)
        else:
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
