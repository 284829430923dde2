"""`/v1/stream` on a socket: the handshake, what clients say, and bytes to many of them at once."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, cast

from websockets.exceptions import InvalidState, ProtocolError
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from artery.errors import ArteryError, NotAllowed, TooMuch
from artery.gateway import frames, handshake, metrics
from artery.gateway.access import Credential
from artery.gateway.door import SUBPROTOCOL
from artery.gateway.frames import Batch
from artery.gateway.grants import Grant
from artery.gateway.room import Room
from artery.gateway.sendqueue import SendQueue
from artery.gateway.session import (
    RATE,
    SLOW,
    UNAUTHENTICATED,
    Decision,
    Leave,
    Ping,
    Say,
    Session,
    Shut,
    State,
    Watch,
)
from artery.gateway.sessions import TASKS, Replaying, Sessions
from artery.telemetry import logger

_CHUNK_BYTES = 64 * 1024
_PONG = 0x8A

# The library's own lines would carry request headers, and a traceback where a client breaks the protocol.
_SILENT = logging.getLogger("artery.gateway.websockets")
_SILENT.disabled = True

_log = logger("gateway")


def _subprotocol(_protocol: ServerProtocol, offered: Iterable[str]) -> str | None:
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


class StreamProtocol(asyncio.Protocol):
    """One connection. It decides nothing: the session does; this carries it out."""

    __slots__ = (
        "__weakref__",
        "_closing",
        "_conn",
        "_connections",
        "_loop",
        "_paused",
        "_paused_s",
        "_queue",
        "_replays",
        "_room",
        "_sessions",
        "_text",
        "_transport",
        "_verifying",
        "_writable",
        "session",
    )

    def __init__(self, sessions: Sessions, connections: set[Any]) -> None:
        self._sessions = sessions
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._conn = ServerProtocol(
            max_size=sessions.limits.inbound_bytes,
            select_subprotocol=cast(Any, _subprotocol),
            logger=_SILENT,
        )
        self.session: Session | None = None
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._queue: SendQueue | None = None
        self._paused = False
        self._paused_s = 0.0
        self._writable: asyncio.Event | None = None
        self._text: list[bytes] | None = None
        self._verifying: asyncio.Task[None] | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._replays: dict[str, Replaying] = {}
        self._room: Room | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._verifying is not None:
            self._verifying.cancel()
        if self._closing is not None:
            self._closing.cancel()
        if self.session is not None:
            self._carry_out(self.session.end())
        self._sessions.remove(self)
        self._release()

    def data_received(self, data: bytes) -> None:
        if self.session is not None:
            self.session.heard(self._sessions.now().s)
        self._conn.receive_data(data)
        for event in self._conn.events_received():
            if isinstance(event, Request):
                self._greet(event)
            elif isinstance(event, WireFrame):
                self._receive(event)
        if self._conn.parser_exc is not None and self.session is not None:
            self._broken(self.session)
        self._send_out()

    def eof_received(self) -> bool:
        self._conn.receive_eof()
        self._send_out()
        return False

    def pause_writing(self) -> None:
        self._paused = True
        self._paused_s = self._sessions.now().s

    def resume_writing(self) -> None:
        self._paused = False
        self._drain()
        if not self._paused and self._writable is not None:
            self._writable.set()

    def shutdown(self) -> None:
        """The server stops and waits no longer."""
        if self._paused:
            self._transport.abort()
        else:
            self._transport.close()

    # What the hub and the gateway call

    def deliver(self, batch: Batch) -> None:
        """Write the joined bytes if the client keeps up, else keep each event in the bounded queue."""
        if not self._paused and not self._queue:
            self._transport.write(batch.wire)
            return
        if self._over():  # let go in the middle of a round: nothing follows the close frame, and nothing is kept
            return
        queue = self._waiting()
        before = queue.conflated
        fits = all(queue.push(frame) for frame in batch.frames)
        if queue.conflated != before:
            metrics.CONFLATED.inc(queue.conflated - before)
        if not fits:
            self.close(SLOW, "the client reads too slowly")

    def tick(self, now_s: float) -> None:
        if self.session is not None:
            self._carry_out(self.session.tick(now_s))
        if self._paused and self._replays and now_s - self._paused_s >= self._sessions.limits.idle_s:
            self.close(SLOW, "a past was asked for and is not read")

    def close(self, code: int, reason: str) -> None:
        if self.session is not None:
            self._carry_out(self.session.close(code, reason))

    async def writable(self) -> bool:
        """Wait until the client takes more; False when it is gone."""
        while (self._paused or self._queue) and not self._over():
            if self._writable is None or self._writable.is_set():  # several replays may wait for it
                self._writable = asyncio.Event()
            await self._writable.wait()
        return not self._over()

    def room(self) -> Room:
        """What its replays share."""
        if self._room is None:
            self._room = Room(self._sessions.limits)
        return self._room

    # The handshake

    def _greet(self, request: Request) -> None:
        full = self._sessions.unverified >= self._sessions.limits.unverified
        response = handshake.refusal(request, self._sessions.door, full=full) or self._conn.accept(request)
        self._conn.send_response(response)
        self._send_out()
        if response.status_code != 101:
            self._end_soon()
            return
        self.session = Session(self._sessions.channels, self._sessions.limits, self._sessions.now().s)
        self._sessions.add(self)
        shown = handshake.shown(request, self._sessions.cookie_name)
        self._verifying = self._loop.create_task(self._verify(shown), name=f"{TASKS} verification")

    async def _verify(self, shown: Credential) -> None:
        session = self.session
        assert session is not None
        try:
            grant = await self._sessions.verify(shown, self._address())
        except NotAllowed as problem:
            metrics.AUTH_FAILURES.labels("stream").inc()
            self._carry_out(session.refuse(UNAUTHENTICATED, "unauthenticated", str(problem)))
        except TooMuch as problem:
            self._carry_out(session.refuse(RATE, problem.code, str(problem)))
        except ArteryError as problem:
            _log.warning("a key could not be verified", error=str(problem))
            self._carry_out(session.refuse(1013, "internal", "the key could not be verified now; try again"))
        else:
            self._live(session, grant)
        self._verifying = None

    def _address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""

    def _live(self, session: Session, grant: Grant) -> None:
        decisions = session.verified(grant, self._sessions.now())
        self._sessions.moved(self)
        self._carry_out(decisions)

    # What clients say

    def _receive(self, frame: WireFrame) -> None:
        session = self.session
        if session is None:
            return
        metrics.FRAMES_IN.inc()
        if frame.opcode is Opcode.TEXT:
            self._part(session, [bytes(frame.data)], frame.fin)
        elif frame.opcode is Opcode.CONT and self._text is not None:
            self._carry_out(session.receive_other(self._sessions.now().s))
            self._text.append(bytes(frame.data))
            self._part(session, self._text, frame.fin)
        elif frame.opcode is Opcode.BINARY:
            self._carry_out(session.receive_binary())
        elif frame.opcode is Opcode.CLOSE:
            self._finish(session)
        else:
            self._carry_out(session.receive_other(self._sessions.now().s))

    def _part(self, session: Session, parts: list[bytes], fin: bool) -> None:
        if not fin:
            self._text = parts
            return
        self._text = None
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            data.decode()
        except UnicodeDecodeError:
            self._finish(session)
            self._conn.fail(1007, "text must be UTF-8")
            return
        self._carry_out(session.receive(data, self._sessions.now()))

    def _broken(self, session: Session) -> None:
        """The library has failed the connection (a frame too large, a broken one) and sends the close frame itself."""
        if session.state is not State.CLOSED:
            sent = self._conn.close_sent
            metrics.CLOSED.labels(str(sent.code) if sent else "1006").inc()
            self._finish(session)

    def _finish(self, session: Session) -> None:
        """No close frame of ours is needed: leave every channel and keep nothing."""
        self._carry_out(session.end())
        self._sessions.moved(self)
        self._release()

    # Carrying out what the session decides

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Say):
                self._say(decision.payload, stale=decision.stale)
            elif isinstance(decision, Watch):
                self._watch(decision)
            elif isinstance(decision, Leave):
                self._leave(decision)
            elif isinstance(decision, Ping):
                self._ping()
            else:
                self._shut(decision)

    def _say(self, payload: bytes, *, stale: bool) -> None:
        metrics.CONTROL_OUT.inc()
        wire = frames.text(payload)
        if not self._paused and not self._queue:
            self._transport.write(wire)
        elif not self._waiting().say(wire, stale=stale):
            self.close(SLOW, "the client reads too slowly")

    def _watch(self, watch: Watch) -> None:
        if watch.old is not None:
            self._stop(watch.channel, watch.old)
        if watch.since is not None:
            if watch.old is not None and self._queue:  # the answer has passed them, and the past has them once more
                self._queue.forget(watch.channel, watch.since.positions)
            replay = self._sessions.replay(self, watch)
            self._replays[watch.channel] = replay
            return
        self._sessions.hub.join(self, watch.channel, watch.types)
        snapshots = self._sessions.hub.snapshots(watch.channel, watch.types)
        if snapshots:
            self.deliver(Batch(snapshots))

    def caught_up(self, replay: Replaying) -> None:
        """A replay has handed over all it held: from here on the hub delivers."""
        if self._replays.get(replay.channel) is replay:
            del self._replays[replay.channel]
            self._sessions.hub.join(self, replay.channel, replay.types)

    def _leave(self, leave: Leave) -> None:
        self._stop(leave.channel, leave.types)
        if self._queue:
            self._queue.forget(leave.channel)

    def _stop(self, channel: str, types: frozenset[str]) -> None:
        self._sessions.hub.leave(self, channel, types)
        replay = self._replays.pop(channel, None)
        if replay is not None:
            replay.cancel()

    def _ping(self) -> None:
        # A client that does not read would only get a heap of them.
        if not self._paused and not self._over():
            self._conn.send_ping(b"")
            self._send_out()

    def _shut(self, shut: Shut) -> None:
        metrics.CLOSED.labels(str(shut.code)).inc()
        self._sessions.moved(self)
        self._release()
        try:
            self._conn.send_close(shut.code, _short(shut.reason))
        except (InvalidState, ProtocolError):
            self._transport.close()
            return
        self._send_out()
        self._end_soon()

    # Bytes out

    def _send_out(self) -> None:
        """Write what the library wants to say (handshake, pongs, close); the empty one ends our side."""
        for data in self._conn.data_to_send():
            if data:
                # A client that pings but does not read would collect pongs here for ever.
                if not (self._paused and data[0] == _PONG):
                    self._transport.write(data)
            else:
                if self._transport.can_write_eof() and not self._transport.is_closing():
                    self._transport.write_eof()
                self._end_soon()

    def _waiting(self) -> SendQueue:
        if self._queue is None:
            self._queue = SendQueue(self._sessions.limits)
        return self._queue

    def _drain(self) -> None:
        while self._queue and not self._paused and not self._transport.is_closing():
            self._transport.write(self._queue.take(_CHUNK_BYTES))
        if self._queue is not None and not self._queue:
            self._queue = None

    def _over(self) -> bool:
        return self.session is None or self.session.state is State.CLOSED

    def _end_soon(self) -> None:
        """Give the other side a moment to read the end and close, then cut the connection."""
        if self._closing is None:
            self._closing = self._loop.call_later(self._sessions.limits.close_s, self._transport.abort)

    def _release(self) -> None:
        """Let go of what waits for a client that is leaving."""
        self._queue = None
        if self._writable is not None:
            self._writable.set()


def _short(reason: str) -> str:
    """A close frame holds 123 bytes of reason."""
    return reason.encode()[:120].decode(errors="ignore")
