"""One shared WebSocket to a venue that stays connected: the only file here that opens sockets."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidURI, WebSocketException

from artery.errors import BadSetting
from artery.providers.base import Signal
from artery.providers.frames import Ack, Dialect, Stream
from artery.providers.roster import Roster
from artery.providers.session import Session
from artery.providers.timing import Backoff, Budget, Timing, spend
from artery.telemetry import counter, logger

FRAME_MAX = 16 * 1024 * 1024
QUEUE_FRAMES = 64
PAUSE_S = 0.2  # a consumer that takes longer than this is not counted as the venue's silence

_connects = counter("provider_connects_total", "Connections opened to a venue.", "provider")
_losses = counter("provider_losses_total", "Connections to a venue that ended.", "provider")
_log = logger("providers")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def is_loopback(url: str) -> bool:
    """Loopback is never reached through a proxy."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


class Connection:
    """Connects, subscribes, pings, notices silence, reconnects: for as long as someone listens."""

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        *,
        timing: Timing | None = None,
        wall: Callable[[], int] = wall_ms,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._url, self._dialect = url, dialect
        self._timing = timing or Timing()
        self._wall, self._jitter = wall, jitter
        self._connects = Budget(self._timing.connects_per_min, time.monotonic())
        self._wanted: tuple[str, ...] = ()

    def follow(self, coins: Sequence[str]) -> None:
        """From now on `listen` tells of these markets."""
        self._wanted = tuple(dict.fromkeys(coins))

    async def listen(self, coins: Sequence[str]) -> AsyncGenerator[Signal, None]:
        """What the venue says about these markets, for ever."""
        timing = self._timing
        self.follow(coins)
        roster = Roster(self._wanted, timing)
        backoff = Backoff(timing.backoff_s, timing.backoff_max_s, self._jitter)
        while True:
            await spend(self._connects, 1)
            began = time.monotonic()
            roster.want(self._wanted)
            session = Session(self._dialect, roster, timing, began, self._wall())
            async with aclosing(self._attempt(session, roster)) as signals:
                async for signal in signals:
                    yield signal
            cause, now = session.verdict, time.monotonic()
            for signal in [*session.take_rest(), *self._conclude(session, roster, cause, now)]:
                yield signal
            if now - began >= timing.stable_s or session.guilty:
                backoff.reset()
            wait_s = backoff.next_s()
            _log.warning("connection lost", provider=self._dialect.provider, cause=cause, again_in_s=round(wait_s, 1))
            await asyncio.sleep(wait_s)

    async def _attempt(self, session: Session, roster: Roster) -> AsyncGenerator[Signal, None]:
        """One connection from beginning to end; why it ended is the session's verdict."""
        try:
            async with self._open() as socket:
                _connects.labels(self._dialect.provider).inc()
                async with aclosing(self._converse(socket, session, roster)) as signals:
                    async for signal in signals:
                        yield signal
                socket.transport.abort()
        except InvalidURI as error:
            raise BadSetting(f"ART_VENUE_WS_URL is not the address of a WebSocket: {error}") from error
        except ConnectionClosed as error:
            session.was_closed = not session.verdict
            session.verdict = f"the venue closed the socket ({error.rcvd.code if error.rcvd else 1006})"
        except TimeoutError:
            session.verdict = session.verdict or "the venue does not answer"
        except (OSError, WebSocketException) as error:
            session.verdict = f"the venue cannot be reached ({type(error).__name__})"

    def _open(self) -> connect:
        return connect(
            self._url,
            compression=None,
            max_size=FRAME_MAX,
            max_queue=QUEUE_FRAMES,
            open_timeout=self._timing.open_s,
            close_timeout=self._timing.close_s,
            ping_interval=None,
            proxy=None if is_loopback(self._url) else True,
        )

    async def _converse(
        self, socket: ClientConnection, session: Session, roster: Roster
    ) -> AsyncGenerator[Signal, None]:
        """Read and answer until the session has a verdict or the socket ends."""
        timing = self._timing
        next_tick = 0.0
        async with _Probes(self, roster, session) as probes:
            while True:
                now = time.monotonic()
                if now >= next_tick:
                    next_tick = now + timing.tick_s
                    if roster.coins != self._wanted:
                        session.follow(*roster.want(self._wanted), self._wall())
                    session.tick(now)
                    probes.tick(now)
                for text in session.take_sends(now):
                    async with asyncio.timeout(timing.open_s):
                        await socket.send(text)
                for signal in session.take_signals():
                    yield signal
                if (paused_s := time.monotonic() - now) > PAUSE_S:
                    session.paused(paused_s)
                if session.verdict:
                    return
                frame = await self._receive(socket, next_tick)
                if frame is not None:
                    received_ms = self._wall()
                    session.hear(self._dialect.parse(frame, received_ms), time.monotonic(), received_ms)

    async def _receive(self, socket: ClientConnection, until: float) -> bytes | None:
        """One frame as bytes, whatever its kind: text that is not UTF-8 must not end the connection."""
        try:
            async with asyncio.timeout(max(0.001, until - time.monotonic())):
                return await socket.recv(decode=False)
        except TimeoutError:
            return None

    def _conclude(self, session: Session, roster: Roster, cause: str, now: float) -> list[Signal]:
        """What the end of a connection means for the markets."""
        _losses.labels(self._dialect.provider).inc()
        signals: list[Signal] = list(roster.lost(cause, session.good_until_ms()))
        roster.distrust(session.unanswered())
        if session.guilty:
            _log.warning("market refused", provider=self._dialect.provider, coin=session.guilty)
            roster.refused(session.guilty, now)
            signals += roster.down(session.guilty, "the venue refuses this market", session.good_ms(session.guilty))
        return signals

    async def takes(self, coin: str) -> bool:
        """Whether the venue takes a subscription to this market, tried on a socket of its own."""
        stream = Stream("trades", coin)
        try:
            async with asyncio.timeout(self._timing.open_s), self._open() as socket:
                await socket.send(self._dialect.subscribe(stream))
                while True:
                    heard = self._dialect.parse(await socket.recv(decode=False), self._wall())
                    if isinstance(heard, Ack) and heard.stream == stream:
                        return True
        except (OSError, TimeoutError, WebSocketException):
            return False


class _Probes:
    """Tries refused markets again, one at a time, away from the socket that the others share."""

    def __init__(self, connection: Connection, roster: Roster, session: Session) -> None:
        self._connection, self._roster, self._session = connection, roster, session
        self._coin = ""
        self._task: asyncio.Task[bool] | None = None

    async def __aenter__(self) -> "_Probes":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def tick(self, now: float) -> None:
        if self._task is None:
            self._coin = self._roster.to_probe(now)
            if self._coin:
                self._task = asyncio.create_task(self._connection.takes(self._coin))
        elif self._task.done():
            if self._task.result():
                self._session.admit(self._coin)
            else:
                self._roster.refused(self._coin, now)
            self._task = None
