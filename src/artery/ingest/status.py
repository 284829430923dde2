"""What a feed says of itself in the store, each second."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from artery.errors import ArteryError
from artery.ingest.parts import Parts
from artery.telemetry import logger

TTL_S = 15.0
STALE_MS = 15_000
PASSIVE = ("off", "standby")

_log = logger("ingest")


class FeedStatus(msgspec.Struct, kw_only=True):
    """The value of `artery:feed:{provider}`."""

    provider: str
    state: str
    epoch: int = 0
    since_ms: int
    updated_ms: int
    cause: str = ""
    markets: dict[str, dict[str, int]] = {}


def status_key(provider: str) -> str:
    return f"artery:feed:{provider}"


def state_of(*, up: bool, trouble: str, heard_ms: int, now_ms: int) -> str:
    """The word for a leader's feed: live, connecting, or stale when nothing comes or nothing can be written."""
    if not up:
        return "connecting"
    return "stale" if trouble or now_ms - heard_ms > STALE_MS else "live"


class StatusLine:
    """Keeps `since_ms`: when the state last changed."""

    def __init__(self, provider: str, epoch: int) -> None:
        self._provider = provider
        self._epoch = epoch
        self._state = ""
        self._since_ms = 0

    def next(self, state: str, now_ms: int, cause: str, markets: Mapping[str, dict[str, int]]) -> FeedStatus:
        if state != self._state:
            self._state, self._since_ms = state, now_ms
        return FeedStatus(
            provider=self._provider,
            state=state,
            epoch=self._epoch,
            since_ms=self._since_ms,
            updated_ms=now_ms,
            cause=cause,
            markets=dict(markets),
        )


async def keep_saying(parts: Parts, look: Callable[[], FeedStatus]) -> None:
    """Write the leader's status once a second, until cancelled."""
    while True:
        status = look()
        try:
            await parts.store.put(status_key(parts.provider), msgspec.json.encode(status), TTL_S)
        except ArteryError as error:
            _log.warning("the feed's status cannot be written", reason=str(error))
        await asyncio.sleep(parts.pauses.status_s)


async def say_passive(parts: Parts, state: str, cause: str, since_ms: int) -> None:
    """Say that this process does not lead, unless a leader's word stands."""
    key, now_ms = status_key(parts.provider), parts.now_ms()
    try:
        old = await parts.store.get(key)
        if old is not None and not _may_replace(old, now_ms):
            return
        status = FeedStatus(
            provider=parts.provider, state=state, since_ms=since_ms, updated_ms=now_ms, cause=cause, markets={}
        )
        await parts.store.compare_and_set(key, old, msgspec.json.encode(status), TTL_S)
    except ArteryError as error:
        _log.warning("the feed's status cannot be written", reason=str(error))


async def keep_passive(parts: Parts, state: str, cause: str, leading: Callable[[], bool] = lambda: False) -> None:
    """Say once a second that this process does not lead, while it does not, until cancelled."""
    since_ms = parts.now_ms()
    while True:
        if not leading():
            await say_passive(parts, state, cause, since_ms)
        await asyncio.sleep(parts.pauses.status_s)


def _may_replace(value: bytes, now_ms: int) -> bool:
    old = _decoded(value)
    return old is None or old.state in PASSIVE or now_ms - old.updated_ms > STALE_MS


def _epoch(value: bytes) -> int:
    old = _decoded(value)
    return old.epoch if old else 0


def _decoded(value: bytes) -> FeedStatus | None:
    try:
        return msgspec.json.decode(value, type=FeedStatus)
    except msgspec.DecodeError:
        return None


async def say_stopped(parts: Parts, epoch: int) -> None:
    """A leader's last word, unless a newer leader has spoken."""
    key, now_ms = status_key(parts.provider), parts.now_ms()
    status = FeedStatus(
        provider=parts.provider, state="standby", epoch=epoch, since_ms=now_ms, updated_ms=now_ms, cause="stopped"
    )
    try:
        old = await parts.store.get(key)
        if old is not None and _epoch(old) == epoch:
            await parts.store.compare_and_set(key, old, msgspec.json.encode(status), TTL_S)
    except ArteryError as error:
        _log.warning("the feed's status cannot be written", reason=str(error))
