"""ZeroMQ sockets, set up safely in one place: bounded queues, frames and waits, and heartbeats on every connection."""

import asyncio
import ipaddress
import sys
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import zmq
import zmq.asyncio

from artery.errors import BadSetting, CannotStart, Unavailable
from artery.wire.certificates import Certificate
from artery.wire.envelope import FRAME_MAX

SUBSCRIPTION_MAX = 4 * 1024
"""A frame where peers subscribe. libzmq takes a topic out of its tree with one nested call a byte: a long one, once its
subscriber leaves, would end the process for want of a stack."""
QUEUE_MAX = 10_000
"""Messages that may wait for a peer; past it the newest are dropped (or refused, where someone waits for an answer)."""
BURST = 100
"""Messages that are received without a wait before others on the loop have their turn."""
HEARTBEAT_MS = 5_000
SILENCE_MS = 15_000
RECONNECT_MS, RECONNECT_MAX_MS = 100, 2_000
HANDSHAKE_MS = 5_000
_NOT_NOW = (zmq.EAGAIN, zmq.EHOSTUNREACH, zmq.ENOTSUP)

Kind = zmq.SocketType
XPUB_VERBOSE, XPUB_VERBOSER, XPUB_MANUAL = zmq.XPUB_VERBOSE, zmq.XPUB_VERBOSER, zmq.XPUB_MANUAL
ROUTER_MANDATORY = zmq.ROUTER_MANDATORY

Keys = Callable[[Any, str], None]
"""Gives a socket its part in CURVE, before it is bound or connected; the text says which door it is."""


INSIDE = "inside"
"""The door of sockets that never leave the process: nobody has a key for it."""


def no_keys(_driver: Any, _door: str) -> None:
    """Sockets that only this machine can reach."""


class Context:
    """What sockets are made from; closing it closes them all, without a wait for what is unsent."""

    def __init__(self, keys: Keys = no_keys) -> None:
        self.driver = zmq.asyncio.Context()
        self._keys = keys
        self._sockets: list[Socket] = []

    def socket(self, kind: Kind, *, queue_max: int = QUEUE_MAX, frame_max: int = FRAME_MAX, door: str = "") -> "Socket":
        made = Socket(prepare(self.driver.socket(kind), queue_max=queue_max, frame_max=frame_max))
        self._sockets.append(made)
        self._keys(made.driver, door)
        return made

    async def close(self) -> None:
        """Sockets are closed by the loop that owns them; the rest may have to wait for other threads."""
        for socket in self._sockets:
            socket.close()
        await asyncio.to_thread(self.driver.term)


class Socket:
    """A socket of an event loop: receiving waits, and lets others on the loop have their turn; sending never does."""

    def __init__(self, driver: "zmq.asyncio.Socket") -> None:
        self._driver = driver
        self._connected: set[str] = set()
        self._received = 0

    @property
    def driver(self) -> Any:
        return self._driver

    def option(self, option: int, value: int | bytes) -> None:
        self._driver.setsockopt(option, value)

    def bind(self, url: str, setting: str) -> str:
        """Listen, and return where; `CannotStart` names the setting that gives another place."""
        return bind(self._driver, url, setting)

    def connect(self, urls: Iterable[str]) -> None:
        """Be connected to exactly these, from now on; each connection is kept up by itself."""
        wanted = set(urls)
        for url in self._connected - wanted:
            self._driver.disconnect(url)
        for url in wanted - self._connected:
            try:
                self._driver.connect(url)
            except zmq.ZMQError as error:
                raise Unavailable(f"{url!r:.80} cannot be connected to: {error}") from error
        self._connected = wanted

    def subscribe(self, topic: str) -> None:
        self._driver.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def unsubscribe(self, topic: str) -> None:
        self._driver.setsockopt(zmq.UNSUBSCRIBE, topic.encode())

    def grant(self, topic: str) -> None:
        """Of an XPUB that judges: let the peer that was heard last have this."""
        self._driver.setsockopt(zmq.SUBSCRIBE, topic.encode())

    def refuse(self, topic: str) -> None:
        """The reverse; nothing, if that peer is gone."""
        self._driver.setsockopt(zmq.UNSUBSCRIBE, topic.encode())

    async def receive(self) -> list[bytes]:
        """The frames of the next message."""
        await self._give_way()
        try:
            return await self._driver.recv_multipart()
        except zmq.ZMQError as error:
            raise Unavailable(f"the socket was closed: {error}") from error

    async def receive_from(self) -> tuple[str, list[bytes]]:
        """Who sent it, by the key that was let in (nobody, where there are no keys), and the frames."""
        await self._give_way()
        try:
            frames = await self._driver.recv_multipart(copy=False)
        except zmq.ZMQError as error:
            raise Unavailable(f"the socket was closed: {error}") from error
        return _sender(frames[-1]), [frame.bytes for frame in frames]

    async def _give_way(self) -> None:
        """A message that is there already is received without a wait, so a peer that sends many at once would have the
        loop for itself. Before one is received, as a cancelled wait after it would lose it."""
        self._received += 1
        if self._received % BURST == 0:
            await asyncio.sleep(0)

    def receive_now(self) -> list[bytes] | None:
        """The frames of a message that is there already."""
        waiting = cast(Future[list[bytes]], self._driver.recv_multipart(flags=zmq.NOBLOCK))
        error = waiting.exception()
        return None if error else waiting.result()

    def send(self, frames: Sequence[bytes]) -> bool:
        """Send, or say that the peer is gone or does not keep up."""
        sent = cast(Future[object], self._driver.send_multipart(frames, flags=zmq.NOBLOCK))
        error = sent.exception()
        if isinstance(error, zmq.ZMQError) and error.errno in _NOT_NOW:
            return False
        if error:
            raise Unavailable(f"the socket cannot send: {error}") from error
        return True

    def close(self) -> None:
        self._driver.close(linger=0)


def _sender(frame: Any) -> str:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:  # no key was asked for, or the peer has gone
        return ""


def let_in(pair: Certificate) -> Keys:
    """The relay's side of CURVE: nobody comes in of whom whoever answers for ZAP does not say so, at any door."""

    def apply(driver: Any, door: str) -> None:
        driver.curve_server = True
        driver.curve_secretkey = pair.secret.encode()
        driver.zap_domain = (door or INSIDE).encode()
        driver.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    return apply


def show(carried: Certificate | None) -> Keys:
    """The other side: show this key, and talk to nobody but the relay whose key it names. None: there are no keys."""
    if carried is None:
        return no_keys
    mine = carried

    def apply(driver: Any, _door: str) -> None:
        driver.curve_serverkey = mine.server.encode()
        driver.curve_publickey = mine.public.encode()
        driver.curve_secretkey = mine.secret.encode()

    return apply


def prepare(driver: Any, *, queue_max: int = QUEUE_MAX, frame_max: int = FRAME_MAX) -> Any:
    """Give a socket its limits, before it is bound or connected."""
    driver.linger = 0
    driver.sndhwm = driver.rcvhwm = queue_max
    driver.maxmsgsize = frame_max
    driver.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    driver.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
    driver.setsockopt(zmq.HEARTBEAT_TTL, SILENCE_MS)
    driver.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    driver.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    driver.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    return driver


def bind(driver: Any, url: str, setting: str) -> str:
    """Listen on a URL and return it with the port that was taken; `CannotStart` if it cannot be had."""
    try:
        driver.bind(url)
    except zmq.ZMQError as error:
        why = "taken" if error.errno == zmq.EADDRINUSE else f"not to be had ({error})"
        raise CannotStart(f"{url} is {why}; stop what uses it, or set {setting} to another") from error
    return str(driver.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0"))


_UP, _DOWN = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED


def watch(context: Context, driver: Any) -> Socket:
    """A socket that says what becomes of another's connections; `came_or_went` reads it."""
    url = f"inproc://doings-{id(driver):x}"
    driver.monitor(url, _UP | _DOWN)
    made = context.socket(Kind.PAIR)
    made.connect([url])
    return made


async def came_or_went(doings: Socket) -> tuple[bool, str]:
    """(whether a connection came up or went down, its address), when it next happens."""
    head, address = await doings.receive()
    return int.from_bytes(head[:2], sys.byteorder) == _UP, address.decode(errors="replace")


def tcp(host: str, port: int) -> str:
    """The URL of a port; 0 takes a free one."""
    place = f"[{host}]" if ":" in host else host
    return f"tcp://{place}:{port or '*'}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether it stands for every address of this machine, so that nobody can connect to it as it is."""
    try:
        return host == "*" or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def check_public(url: str, *, carries_key: bool) -> None:
    """Refuse to listen without a key where other machines can reach it."""
    host = url.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if not carries_key and not is_loopback(host):
        raise BadSetting(
            f"ART_PIPELINE_PUBLISH_URL is {url!r:.80}, which other machines can reach: set ART_RELAY_KEY, or use"
            " 127.0.0.1"
        )
