"""The simulated venue's sockets: `/ws`, `/info`, and for tests `/faults` and `/truth`, on one loopback port.

`POST /faults` takes what `faults.py` lists. `POST /truth` with `{"coin", "start_ms", "end_ms"}` answers with every
trade that the venue really had in that time, to compare with what Artery stored. Both refuse web pages.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from artery.errors import ArteryError, BadInput, TooMuch
from artery.providers.sim import answers, frames, http
from artery.providers.sim.faults import read_order
from artery.providers.sim.floor import Floor, Pace
from artery.providers.sim.listing import LISTINGS
from artery.providers.sim.market import SimMarket
from artery.providers.sim.minutes import MINUTE_MS
from artery.providers.sim.subscriptions import Key

MESSAGE_MAX = 64 * 1024
BACKLOG_MAX = 64 * 1024 * 1024
SOCKETS_MAX = 1_000
MANY_TRADES = 5_000.0  # in a minute: more are made ahead, in a thread


class Timing(msgspec.Struct, frozen=True):
    """How the sockets behave in time."""

    flush_s: float = 0.02
    refuse_after_s: float = 0.1
    idle_s: float = 60.0


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class SimServer:
    """The venue, once started; `pulse` must run for as long as it is open."""

    def __init__(
        self,
        market: SimMarket,
        *,
        pace: Pace | None = None,
        timing: Timing | None = None,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self.floor = Floor(market, pace or Pace())
        self.timing = timing or Timing()
        self.connected: set[Client] = set()
        self.clients: set[Client] = set()  # those that have become WebSockets
        self.refusing_until_ms = 0
        self._clock = clock
        self._latest_ms = 0
        self._server: asyncio.Server | None = None
        self._pulse: asyncio.Task[None] | None = None

    async def start(self, port: int) -> int:
        """Listen on loopback; the port that was taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Client(self), "127.0.0.1", port)
        self._pulse = loop.create_task(self._pulse_for_ever())
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._pulse is not None:
            self._pulse.cancel()
            await asyncio.gather(self._pulse, return_exceptions=True)
        for client in list(self.connected):
            client.abort()
        await asyncio.sleep(0)  # an aborted transport is closed in the loop's next turn

    async def wait(self) -> None:
        """Until the venue's pulse ends, which is never but by a fault of its own."""
        if self._pulse is not None:
            await self._pulse

    def now_ms(self) -> int:
        """The wall clock, which at this venue never goes back."""
        self._latest_ms = max(self._latest_ms, self._clock())
        return self._latest_ms

    @property
    def refusing(self) -> bool:
        return self.now_ms() < self.refusing_until_ms

    @property
    def stalled(self) -> bool:
        return self.now_ms() < self.floor.stalled_until_ms

    def answer(self, request: http.Request) -> answers.Answer:
        """Status and body for a plain HTTP request."""
        if request.method != "POST" or request.path not in ("/info", "/faults", "/truth"):
            return 404, b'{"error":"POST to /info, or open a WebSocket at /ws"}'
        if request.path == "/info":
            market, now_ms = self.floor.market, self.now_ms()
            return (503, b"null") if self.refusing else answers.info(market, request.body, now_ms)
        if "origin" in request.headers:
            return 403, b'{"error":"not for web pages"}'
        if request.path == "/truth":
            return answers.truth(self.floor.market, request.body, self.now_ms())
        return self._disturb(request.body)

    def _disturb(self, body: bytes) -> answers.Answer:
        try:
            order = read_order(body)
        except BadInput as error:
            return 400, msgspec.json.encode({"error": str(error)})
        if order.refuse_s is not None:
            self.refusing_until_ms = self.now_ms() + int(order.refuse_s * 1_000)
        self.floor.disturb(order, self.now_ms())
        self._flush()
        return 200, b'{"ok":true}'

    async def _pulse_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        made = 0
        while True:
            now_ms = self.now_ms()
            self.floor.pulse(now_ms)
            self._flush()
            self._cut_idle(loop.time())
            if now_ms % MINUTE_MS > 45_000 and made != now_ms // MINUTE_MS + 1:
                made = now_ms // MINUTE_MS + 1
                await self._make_ahead(made)
            wait_ms = self.floor.next_ms(now_ms) - self.now_ms()
            await asyncio.sleep(max(self.timing.flush_s, wait_ms / 1_000))

    async def _make_ahead(self, minute: int) -> None:
        """The trades of the next minute, where making them would hold up those of this one."""
        market = self.floor.market
        for listing in LISTINGS:
            if self.clients and market.trades_per_s * listing.share * 60 > MANY_TRADES:
                await asyncio.to_thread(market.prints, listing, minute)

    def _flush(self) -> None:
        for client in list(self.clients):
            client.flush()

    def _cut_idle(self, now: float) -> None:
        """The real venue closes a socket that it has not sent anything to for a minute."""
        for client in [client for client in self.clients if now - client.spoke_at > self.timing.idle_s]:
            client.abort()


class Client(asyncio.Protocol):
    """One TCP connection: HTTP until it becomes a WebSocket."""

    def __init__(self, server: SimServer) -> None:
        self.subscriptions: set[Key] = set()
        self.spoke_at = 0.0
        self._server = server
        self._buffer = b""
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._websocket: ServerProtocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass of it
        self._server.connected.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.connected.discard(self)
        self._server.clients.discard(self)
        self._server.floor.leave(self)

    def data_received(self, data: bytes) -> None:
        if self._websocket is not None:
            self._converse(data)
            return
        self._buffer += data
        try:
            self._serve()
        except TooMuch as error:
            self._reply(413, str(error))
        except ArteryError as error:
            self._reply(400, str(error))

    def say(self, frame: bytes) -> None:
        self._out.append(frame)

    def refuse(self) -> None:
        asyncio.get_running_loop().call_later(self._server.timing.refuse_after_s, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def flush(self) -> None:
        """Write what was said since the last time, in one go; a client that does not read is cut off."""
        if self._server.stalled:
            return
        out, self._out = self._out, []
        if not out or self._transport is None or self._websocket is None or self._websocket.state is not OPEN:
            return
        if self._transport.get_write_buffer_size() > BACKLOG_MAX:
            self.abort()
            return
        self._transport.write(b"".join(out))
        self.spoke_at = asyncio.get_running_loop().time()

    def _serve(self) -> None:
        """Answer the whole requests in the buffer."""
        while self._transport is not None and (request := http.read_request(self._buffer)) is not None:
            if request.is_upgrade and request.path == "/ws":
                data, self._buffer = self._buffer, b""
                self._open(data)
                return
            self._buffer = self._buffer[request.size :]
            self._transport.write(http.response(*self._server.answer(request)))

    def _open(self, data: bytes) -> None:
        server = self._server
        if server.refusing or len(server.connected) > SOCKETS_MAX:
            self.abort()
            return
        self._websocket = ServerProtocol(max_size=MESSAGE_MAX)
        self._converse(data)

    def _converse(self, data: bytes) -> None:
        websocket, server = self._websocket, self._server
        assert websocket is not None
        websocket.receive_data(data)
        for event in websocket.events_received():
            if isinstance(event, Handshake):
                websocket.send_response(websocket.accept(event))
                self._write_protocol(websocket)
                self._welcome()
            elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY):
                server.floor.hear(self, bytes(event.data), server.now_ms())
        self._write_protocol(websocket)
        self.flush()

    def _welcome(self) -> None:
        self.spoke_at = asyncio.get_running_loop().time()
        self._server.clients.add(self)
        self._server.floor.listeners.add(self)
        self.say(frames.websocket_frame(frames.GREETING))

    def _write_protocol(self, websocket: ServerProtocol) -> None:
        """What the protocol itself has to say: the handshake, pongs, the end."""
        for part in websocket.data_to_send():
            if self._transport is None:
                return
            if part:
                self._transport.write(part)
            else:
                self._transport.close()

    def _reply(self, status: int, words: str) -> None:
        if self._transport is not None:
            self._transport.write(http.response(status, msgspec.json.encode({"error": words})))
            self._transport.close()
