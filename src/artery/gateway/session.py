"""One connected client without its socket: frames and clock in, decisions out. Pure."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from artery.errors import BadInput
from artery.gateway import frames
from artery.gateway.frames import Request, Since, Wanted
from artery.gateway.grants import Grant, Scope
from artery.gateway.limits import Limits

RESTART, SLOW, IDLE, RATE = 4000, 4008, 4012, 4029
UNAUTHENTICATED, REVOKED, FORBIDDEN, PROTOCOL_ERROR = 4500, 4501, 4503, 4504


class Now(msgspec.Struct, frozen=True):
    """Both clocks: monotonic seconds for waits, Unix milliseconds for what is told to clients."""

    s: float
    ms: int


class State(Enum):
    UNVERIFIED = "unverified"
    LIVE = "live"
    CLOSED = "closed"


class Say(msgspec.Struct, frozen=True):
    """Send this answer; a stale one may be dropped when the client does not read."""

    payload: bytes
    stale: bool = False


class Watch(msgspec.Struct, frozen=True):
    """From now on the client gets these types of a channel, `old` being those it had."""

    channel: str
    types: frozenset[str]
    old: frozenset[str] | None = None
    since: Since | None = None


class Leave(msgspec.Struct, frozen=True):
    """The client no longer gets this channel."""

    channel: str
    types: frozenset[str]


class Ping(msgspec.Struct, frozen=True):
    """Ask the client for a sign of life."""


class Shut(msgspec.Struct, frozen=True):
    """Close the connection with this code."""

    code: int
    reason: str


Decision = Say | Watch | Leave | Ping | Shut


class Channels(Protocol):
    """What a session has to know of the rest."""

    def known(self, channel: str) -> bool: ...

    def positions(self, channel: str, types: frozenset[str]) -> Mapping[str, str]:
        """Where each series stands, as far as it is known."""
        ...

    def take(self, owner: str, channels: Sequence[str]) -> str:
        """A session of this key wants these; a sentence that says why not, and then none of them."""
        ...

    def give(self, owner: str, channel: str) -> None:
        """It does not want this one any more."""
        ...


class Session:
    """States: unverified (frames wait), live, closed. No method raises, whatever a client sends."""

    __slots__ = (
        "_channels",
        "_early",
        "_early_bytes",
        "_filled_s",
        "_heard_s",
        "_limits",
        "_opened_s",
        "_pinged_s",
        "_subscribed",
        "_tokens",
        "grant",
        "state",
        "subscriptions",
    )

    def __init__(self, channels: Channels, limits: Limits, now_s: float) -> None:
        self._channels = channels
        self._limits = limits
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._tokens = limits.frames_burst
        self._opened_s = self._heard_s = self._pinged_s = self._filled_s = now_s
        self._subscribed = 0
        self.state = State.UNVERIFIED
        self.grant: Grant | None = None
        self.subscriptions: dict[str, frozenset[str]] = {}

    def heard(self, now_s: float) -> None:
        """Any inbound byte is a sign of life."""
        self._heard_s = now_s

    def receive(self, data: bytes, now: Now) -> list[Decision]:
        """A text frame has arrived."""
        if self.state is State.CLOSED:
            return []
        if self.state is State.UNVERIFIED:
            return self._wait(data)
        if not self._pay(now.s):
            return self._refuse_rate(frames.request_id(data))
        return self._handle(data, now)

    def receive_other(self, now_s: float) -> list[Decision]:
        """A frame without text (a ping, a pong, a fragment) has arrived; it counts like any other."""
        if self.state is State.CLOSED or self._pay(now_s) or self._tokens > -self._limits.frames_burst:
            return []
        return self.close(RATE, "too many frames")

    def receive_binary(self) -> list[Decision]:
        """Everything that a client says is text."""
        if self.state is State.CLOSED:
            return []
        said = Say(frames.error(None, "bad_request", "frames must be text with JSON, not binary"))
        return [said, *self.close(PROTOCOL_ERROR, "binary frame")]

    def verified(self, grant: Grant, now: Now) -> list[Decision]:
        """The key was right: handle what has waited, in order."""
        if self.state is not State.UNVERIFIED:
            return []
        if Scope.STREAM not in grant.scopes:
            return self.refuse(FORBIDDEN, "forbidden_scope", "this key lacks the scope stream")
        self.state, self.grant = State.LIVE, grant
        early, self._early, self._early_bytes = self._early, [], 0
        # Each of them is answered, and all of them count: there is no second burst behind them.
        self._tokens -= min(max(self._tokens, 0.0), len(early))
        decisions: list[Decision] = []
        for data in early:
            decisions += self._handle(data, now)
        return decisions

    def refuse(self, close_code: int, code: str, message: str) -> list[Decision]:
        """Say why, then close."""
        if self.state is State.CLOSED:
            return []
        return [Say(frames.error(None, code, message)), *self.close(close_code, message)]

    def tick(self, now_s: float) -> list[Decision]:
        """The clock has moved: time for a ping, or for the end?"""
        if self.state is State.CLOSED:
            return []
        if self.state is State.UNVERIFIED:
            if now_s - self._opened_s < self._limits.verify_s:
                return []
            return self.refuse(UNAUTHENTICATED, "unauthenticated", "no key was verified in time")
        if now_s - self._heard_s >= self._limits.idle_s:
            return self.close(IDLE, f"nothing was heard for {self._limits.idle_s:.0f} s")
        if now_s - self._pinged_s >= self._limits.ping_s:
            # Also to a client that talks: it is its sign of life from here, on a channel where nothing happens.
            self._pinged_s = now_s
            return [Ping()]
        return []

    def close(self, code: int, reason: str) -> list[Decision]:
        """End it: leave every channel, then close. Nothing is handled after it."""
        if self.state is State.CLOSED:
            return []
        return [*self.end(), Shut(code, reason)]

    def end(self) -> list[Decision]:
        """The connection is gone: leave every channel, keep nothing."""
        self.state = State.CLOSED
        self._early, self._early_bytes = [], 0
        left, self.subscriptions = self.subscriptions, {}
        for channel in left:
            self._channels.give(self._owner, channel)
        return [Leave(channel, types) for channel, types in left.items()]

    @property
    def _owner(self) -> str:
        """The key that answers for what this session wants."""
        return self.grant.source if self.grant else ""

    def _wait(self, data: bytes) -> list[Decision]:
        self._early_bytes += len(data)
        if len(self._early) >= self._limits.early_frames or self._early_bytes > self._limits.early_bytes:
            return self.refuse(RATE, "rate_limited", "too many frames before the key was verified")
        self._early.append(data)
        return []

    def _pay(self, now_s: float) -> bool:
        """Whether this frame is within the rate; a refused one costs too, so that going on leads to the end."""
        limits = self._limits
        grown = self._tokens + (now_s - self._filled_s) * limits.frames_per_s
        self._tokens = min(limits.frames_burst, grown) - 1.0
        self._filled_s = now_s
        return self._tokens >= 0.0

    def _refuse_rate(self, request_id: str | int | None) -> list[Decision]:
        limits = self._limits
        words = f"at most {limits.frames_per_s:.0f} frames a second, {limits.frames_burst:.0f} at once"
        said = Say(frames.error(request_id, "rate_limited", words), stale=True)
        return [said] if self._tokens > -limits.frames_burst else [said, *self.close(RATE, words)]

    def _handle(self, data: bytes, now: Now) -> list[Decision]:
        try:
            request = frames.request(data, types_max=self._limits.types)
        except BadInput as problem:
            return [Say(frames.error(frames.request_id(data), problem.code, str(problem)))]
        if request.kind == "ping":
            return [Say(frames.reply("pong", request.id, ts=now.ms), stale=True)]
        return self._subscribe(request) if request.kind == "subscribe" else self._unsubscribe(request)

    def _subscribe(self, request: Request) -> list[Decision]:
        """All of the channels, or none and an error."""
        wanted = {item.channel: item for item in request.channels}
        if len(self.subscriptions.keys() | wanted.keys()) > self._limits.subscriptions:
            words = f"a connection may have {self._limits.subscriptions} channels"
            return [Say(frames.error(request.id, "subscription_limit", words))]
        unknown = next((name for name in wanted if not self._channels.known(name)), None)
        if unknown is not None:
            words = f"nothing serves {unknown:.200}; /v1/markets lists what there is"
            return [Say(frames.error(request.id, "unknown_channel", words))]
        refusal = self._channels.take(self._owner, [name for name in wanted if name not in self.subscriptions])
        if refusal:
            return [Say(frames.error(request.id, "subscription_limit", refusal))]
        self._subscribed += 1
        watches = [self._watch(item) for item in wanted.values()]
        channels = [
            {"channel": watch.channel, "positions": dict(self._channels.positions(watch.channel, watch.types))}
            for watch in watches
        ]
        answer = frames.reply("subscribed", request.id, subscription_id=f"sub_{self._subscribed}", channels=channels)
        return [Say(answer), *watches]

    def _watch(self, wanted: Wanted) -> Watch:
        types = wanted.types or frames.default_types(wanted.channel)
        old = self.subscriptions.get(wanted.channel)
        self.subscriptions[wanted.channel] = types
        return Watch(wanted.channel, types, old, wanted.since)

    def _unsubscribe(self, request: Request) -> list[Decision]:
        names = [item.channel for item in request.channels]
        left: list[Decision] = []
        for name in names:
            types = self.subscriptions.pop(name, None)
            if types is not None:
                self._channels.give(self._owner, name)
                left.append(Leave(name, types))
        return [*left, Say(frames.reply("unsubscribed", request.id, channels=names))]
