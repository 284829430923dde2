"""The leader lock in Redis."""

import secrets
import time
from collections.abc import Callable

import msgspec

from artery.errors import BadInput
from artery.live.base import Term
from artery.live.lock import DEADLINE
from artery.store.redis_link import Link, Script

EPOCH_KEPT_MS = 30 * 24 * 3_600 * 1_000
"""How long an epoch is remembered; a later one is higher without that too, as it is not below the time."""
_UNHEARD_MAX = 10_000

# The epoch is not below the server's time in ms, so that it rises even if the server has lost all it knew. A token that
# is there already was won by a call whose reply was not heard: that one's epoch is the lock's.
_ACQUIRE = Script("""
local held, epoch = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if held and held ~= ARGV[1] then return false end
if not (held and epoch) then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  epoch = string.format('%.0f', math.max((tonumber(epoch) or 0) + 1, now))
end
redis.call('SET', KEYS[2], epoch, 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return epoch
""")

_RENEW = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")

_RELEASE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
""")


class RedisLock:
    """A lock that is a key with a TTL, which holds a random token: only who knows it can extend or remove it.

    The TTL is the server's. The epoch is kept beside it, in `<key>:epoch`. A server that was killed may have lost the
    last second: two may then hold the lock, of which the bus refuses the one with the lower epoch.
    """

    def __init__(self, url: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._link = Link(url, "ART_LIVE_URL", text=True)
        self._monotonic = monotonic
        self._unheard: dict[str, str] = {}
        """Tokens of which no call was answered yet: the lock may be ours without our knowing."""

    async def acquire(self, key: str, ttl_s: float = 30.0) -> Term | None:
        before, ttl_ms = self._monotonic(), _ttl_ms(ttl_s)
        token = self._unheard.get(key) or secrets.token_hex(16)
        if len(self._unheard) < _UNHEARD_MAX:
            self._unheard[key] = token
        args = (token, ttl_ms, EPOCH_KEPT_MS)
        epoch: str | None = self._link.answer(await self._link.run(_ACQUIRE, (key, f"{key}:epoch"), args))
        self._unheard.pop(key, None)
        return None if epoch is None else Term(key, token, int(epoch), before + DEADLINE * ttl_s)

    async def renew(self, term: Term, ttl_s: float = 30.0) -> Term | None:
        before, args = self._monotonic(), (term.token, _ttl_ms(ttl_s))
        if not self._link.answer(await self._link.run(_RENEW, (term.key,), args)):
            return None
        return msgspec.structs.replace(term, deadline=before + DEADLINE * ttl_s)

    async def release(self, term: Term) -> None:
        self._link.answer(await self._link.run(_RELEASE, (term.key,), (term.token,)))

    async def close(self) -> None:
        await self._link.close()


def _ttl_ms(ttl_s: float) -> int:
    if not 0 < ttl_s < 1e9:
        raise BadInput(f"a TTL is above zero and below 1e9 seconds, not {ttl_s}")
    return max(1, int(ttl_s * 1_000))
